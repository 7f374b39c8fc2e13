"""Settings of listeners and clients by security protocol."""

from pathlib import Path

from tests.certificates import certificate

SECURE = "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"


def settings(folder: Path, protocol: str) -> dict[str, str]:
    """Of a broker with one listener of this protocol."""
    certificate(folder, "broker", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    key = folder / "broker.pem"
    key.write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())
    key.chmod(0o600)
    return {
        "listeners": f"{protocol}://127.0.0.1:0",
        "security.inter.broker.protocol": protocol,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
    }
