"""Settings that would promise what this version does not do: the start is refused rather than the promise broken.

An authorizer that is not asked, or a SASL listener that lets everybody in, must never look like a working one.
"""

from kbroker.config.broker import BrokerConfig


def unsupported(config: BrokerConfig) -> list[str]:
    """One text for each setting that can not be honoured; empty when the broker may start."""
    problems = [
        f"listener {endpoint.listener}: security protocol {endpoint.protocol.name} is not supported yet, only PLAINTEXT"
        for endpoint in config.listeners
        if endpoint.protocol.tls or endpoint.protocol.sasl
    ]
    if config.get_optional_str("authorizer.class.name"):
        problems.append("authorizer.class.name: authorization is not supported yet, leave it empty")
    return problems
