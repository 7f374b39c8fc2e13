"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path


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
