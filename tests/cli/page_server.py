"""A small HTTP server in place of a broker's, for commands that read its pages."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(answer: Callable[[str], tuple[int, bytes]], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server while it runs. answer: the status and the body of a path."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answer(self.path)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
