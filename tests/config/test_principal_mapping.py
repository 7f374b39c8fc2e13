"""Rules for the names of certificates, as Apache Kafka's SslPrincipalMapper applies them."""

import pytest

from kbroker.config.principal_mapping import name_of, rules_of
from kbroker.config.setting import ConfigError

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_the_entire_subject_applies(subject: str, name: str) -> None:
    assert name_of(rules_of(RULES), subject) == name


def test_a_subject_without_a_rule_has_no_name() -> None:
    assert name_of(rules_of("RULE:^CN=a$/a/"), "CN=b") is None
    assert name_of(rules_of("DEFAULT"), "CN=b") == "CN=b"


@pytest.mark.parametrize(
    "wrong", ["default", "DEFAULT/L", "RULE:CN=(a/$1/", "RULE:a/b", "RULE:a/$1/", "DEFAULT,x"]
)
def test_rules_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        rules_of(wrong)
