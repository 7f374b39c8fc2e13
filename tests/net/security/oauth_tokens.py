"""Tokens and key sets for OAUTHBEARER logins."""

import asyncio
import json
import time
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from kbroker.config.broker import BrokerConfig
from kbroker.net.security.oauth import TokenChecks

KEY = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)


def jwks(path: Path, **keys: rsa.RSAPrivateKey) -> None:
    made = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        | {"kid": kid, "alg": "RS256", "use": "sig"}
        for kid, key in keys.items()
    ]
    path.write_text(json.dumps({"keys": made}))


def token(key: Any = KEY, kid: str = "k", algorithm: str = "RS256", **claims: Any) -> str:
    now = int(time.time())
    every = {"sub": "alice", "iat": now, "exp": now + 60, "aud": "kafka", "iss": "https://issuer"} | claims
    present = {name: value for name, value in every.items() if value is not None}
    return jwt.encode(present, key, algorithm, {"kid": kid})


def made(folder: Path, **more: str) -> TokenChecks:
    settings = {
        "jwks.endpoint.url": f"file://{folder}/jwks.json", "expected.audience": "kafka,other",
        "expected.issuer": "https://issuer", "clock.skew.seconds": "5",
    }  # fmt: skip
    named = {f"sasl.oauthbearer.{name}": value for name, value in (settings | more).items()}
    return TokenChecks(BrokerConfig({"log.dirs": "/d"} | named), "SASL")


def claims(checks: TokenChecks, text: str) -> tuple[str, float]:
    """Check a token; waits for the keys that it makes the broker fetch."""
    try:
        return asyncio.run(checks.check(text))
    finally:
        if checks._fetch is not None:
            wait([checks._fetch])
