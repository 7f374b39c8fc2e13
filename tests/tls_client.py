"""A TLS client for tests of a server's context, without a socket."""

import ssl
from contextlib import suppress

from cryptography import x509

from kbroker.config.tls_context import user_of


class Client:
    """One that checks nothing, and remembers its last session, with the suite and the user of
    it."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.context.maximum_version = version
        self.session: ssl.SSLSession | None = None
        self.resumed = False
        self.suite = self.user = ""

    def sees(self, server: ssl.SSLContext, name: str | None, sent: bytes = b"") -> str:
        """The common name of the certificate that it gets; the arguments are those of `gets`."""
        return str(next(iter(self.gets(server, name, sent).subject)).value)

    def gets(self, server: ssl.SSLContext, name: str | None, sent: bytes = b"") -> x509.Certificate:
        """The certificate that it gets. sent: bytes instead of the name."""
        out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        link = self.context.wrap_bio(back, out, server_hostname=name, session=self.session)
        peer = None
        for _ in range(4):
            with suppress(ssl.SSLWantReadError):
                link.do_handshake()
            if peer is None:
                hello = out.read()
                if sent and name:
                    assert hello.count(name.encode()) == 1
                    hello = hello.replace(name.encode(), sent)
                out.write(hello)
                peer = server.wrap_bio(out, back, server_side=True)
            with suppress(ssl.SSLWantReadError):
                peer.do_handshake()
        assert peer is not None
        peer.write(b"x")
        assert link.read(1) == b"x"
        self.session, self.resumed = link.session, bool(link.session_reused)
        self.suite, self.user = (link.cipher() or ("",))[0], user_of(peer.getpeercert())
        return x509.load_der_x509_certificate(link.getpeercert(True) or b"")
