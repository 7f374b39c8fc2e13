"""moto's S3 server on a free port of loopback, with a bucket `backups`."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen


@contextmanager
def s3_server() -> Iterator[str]:
    """Its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        with urlopen(Request(f"{endpoint}/backups", method="PUT"), timeout=30):
            pass
        yield endpoint
    finally:
        server.stop()


def environment(endpoint: str) -> dict[str, str]:
    """What a client of it needs."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
