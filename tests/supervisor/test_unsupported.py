"""What is not done yet refuses the start instead of pretending."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.supervisor.unsupported import unsupported


def test_plain_listeners_may_start() -> None:
    assert unsupported(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"})) == []


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_secure_listener_without_keys_or_logins_is_refused_by_name(protocol: str) -> None:
    config = BrokerConfig(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,{protocol}://127.0.0.1:9093",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    problems = unsupported(config)
    assert problems
    assert all(protocol in problem for problem in problems)


def test_no_authorizer_but_kafkas_own_is_taken() -> None:
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    standard = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    assert unsupported(BrokerConfig(listeners | standard)) == []
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name"):
        BrokerConfig(listeners | {"authorizer.class.name": "com.example.Mine"})


@pytest.mark.parametrize(
    ("mechanisms", "jaas", "refused"),
    [
        ("SCRAM-SHA-256,SCRAM-SHA-512", None, None),
        ("PLAIN", 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";', None),
        ("PLAIN", None, "must be set"),
        ("PLAIN", "nonsense", "JAAS config"),
        ("SCRAM-SHA-256,OAUTHBEARER", None, "sasl.oauthbearer.jwks.endpoint.url must be set"),
        ("SCRAM-SHA-256,GSSAPI", None, "GSSAPI"),
    ],
)
def test_a_sasl_listener_whose_mechanisms_can_work_may_start(
    mechanisms: str, jaas: str | None, refused: str | None
) -> None:
    settings = {"listeners": "PLAINTEXT://:0,SASL_PLAINTEXT://:0", "sasl.enabled.mechanisms": mechanisms}
    if jaas is not None:
        settings["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = jaas
    problems = unsupported(BrokerConfig(settings))
    assert len(problems) == (refused is not None)
    assert refused is None or refused in problems[0]
