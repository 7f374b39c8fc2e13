"""CPU that TLS costs on this host: records are encrypted and decrypted in memory, without a
socket."""

import datetime
import ssl
import tempfile
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PIECE = 64 << 10  # as the broker's relay moves it
GB = 1e9


def measure_tls(seconds: float) -> float:
    """CPU s of one side for a GB: the mean of encryption and decryption. Raises OSError."""
    sender, receiver = _connected()
    piece, moved = bytes(PIECE), 0
    start, before = time.perf_counter(), time.thread_time()
    while not moved or time.perf_counter() - start < seconds:
        sender.write(piece)
        got = 0
        while got < PIECE:
            got += len(receiver.read(PIECE - got))
        moved += PIECE
    return (time.thread_time() - before) / 2 / (moved / GB)


def _connected() -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A client, which sends, and a server after their handshake; memory is between them."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.pem"
        file.write_bytes(_certificate())
        server.load_cert_chain(file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sender = client.wrap_bio(to_client, to_server)
    receiver = server.wrap_bio(to_server, to_client, server_side=True)
    ends = [sender, receiver]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    return sender, receiver


def _certificate() -> bytes:
    """A certificate that only this measurement sees, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
