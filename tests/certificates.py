"""Certificates for tests, made by openssl."""

import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, name: str, subject: str, *options: str) -> None:
    """A self-signed certificate, which so is its own authority: NAME.crt and NAME.key."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    files = ["-keyout", f"{folder / name}.key", "-out", f"{folder / name}.crt", "-days", "2"]
    subprocess.run([*command, *files, "-subj", subject, *options], check=True, capture_output=True)


def dated(
    folder: Path,
    name: str,
    begins: datetime,
    ends: datetime,
    issuer: str | None = None,
    authority: bool = False,
    hosts: Sequence[str] = (),
) -> None:
    """As `certificate`, for the common name NAME and these hosts, good from one time to another.
    issuer: the name of an authority, which has its own files in the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, signer = _named(name), key
    if issuer is not None:
        signer = _key(folder, issuer)
    builder = x509.CertificateBuilder(
        _named(issuer or name), subject, key.public_key(), x509.random_serial_number(), begins, ends
    )
    if authority:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    made = builder.sign(signer, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, pkcs8, plain))
    (folder / f"{name}.crt").write_bytes(made.public_bytes(pem))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key(folder: Path, name: str) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    return found
