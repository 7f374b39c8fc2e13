"""Login module lines: users of PLAIN, quoting, and errors that show nothing."""

import pytest

from kbroker.config.jaas import PLAIN_MODULE, plain_users
from kbroker.config.setting import ConfigError


def test_users_of_plain_are_the_options_that_begin_so() -> None:
    line = f'{PLAIN_MODULE} required username="broker" password="x" user_alice="a b;\\"=" user_b=plain ;'
    assert plain_users(line) == {"alice": 'a b;"=', "b": "plain"}


def test_there_may_be_no_user() -> None:
    assert plain_users(f"{PLAIN_MODULE} required;") == {}


@pytest.mark.parametrize(
    "line",
    [
        "",
        f'{PLAIN_MODULE} required user_a="secret"',
        f'{PLAIN_MODULE} perhaps user_a="secret";',
        f'{PLAIN_MODULE} required user_a="secret;',
        'org.apache.kafka.common.security.scram.ScramLoginModule required user_a="secret";',
    ],
)
def test_errors_are_reported_without_the_passwords(line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plain_users(line)
    assert "secret" not in str(refused.value)
