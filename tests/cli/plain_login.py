"""A listener with PLAIN logins, and clients for it."""

from pathlib import Path

PLAIN_ONLY = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    ),
}


def client(folder: Path, password: str) -> Path:
    file = folder / f"{password}.properties"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{password}";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    return file
