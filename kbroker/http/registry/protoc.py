"""protoc in a separate process: the http process may neither write files nor start a program
(see `confinement`), and protoc does both.

The process is forked before the http process gives up these rights, without its listening sockets.
It gets the texts of .proto files over a pair of sockets, one request after the other, and ends with
its parent.
"""

import importlib.util
import json
import logging
import os
import signal
import socket
import struct
import threading
from collections.abc import Mapping
from http import HTTPStatus

import setproctitle

from kbroker.http.registry.deadline import held
from kbroker.http.registry.failure import Failure, unavailable
from kbroker.http.registry.formats import InvalidSchema
from kbroker.ipc.child import ChildContext, die_with_parent

log = logging.getLogger(__name__)

HEAD = struct.Struct(">BI")
"""The head of a request or an answer: its kind, and its bytes."""
QUESTION, DESCRIPTOR, INVALID, FAILED = range(4)
"""Kinds: JSON of a schema; the answers, a descriptor, a text, or JSON of a Failure."""
FIRST_FD = 3
TITLE = "kbroker: protoc"


class Protoc:
    """Runs in: http. Owner: protobuf_format. Thread-safe."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()

    def compile(self, text: str, references: Mapping[str, str]) -> bytes:
        """The descriptor of a .proto file. Raises InvalidSchema, Failure."""
        question = json.dumps([text, list(references.items())]).encode()
        with held(self._lock, "too many schemas to parse at the same time"):
            try:
                self._link.sendall(HEAD.pack(QUESTION, len(question)) + question)
                kind, found = _received(self._link)
            except OSError as error:
                raise unavailable(f"protoc has ended: {error}") from error
        if kind == INVALID:
            raise InvalidSchema(found.decode("utf-8", "replace"))
        if kind == FAILED:
            status, code, text = json.loads(found)
            raise Failure(HTTPStatus(status), code, text)
        return found


def begin(context: ChildContext) -> None:
    """Fork the process if there is a registry. The caller has one thread, and is not confined."""
    if context.registry_listener is None or importlib.util.find_spec("grpc_tools") is None:
        return
    from kbroker.http.registry.formats import protobuf_format

    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            die_with_parent(parent)
            _serve_forked(theirs)
            _serve(theirs)
        except OSError:
            log.debug("the http process has ended")
        finally:
            os._exit(0)
    theirs.close()
    protobuf_format.use(Protoc(ours).compile)


def _serve_forked(link: socket.socket) -> None:
    os.closerange(FIRST_FD, link.fileno())
    os.closerange(link.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # it ends with its parent
    setproctitle.setproctitle(TITLE)


def _serve(link: socket.socket) -> None:
    while True:
        _, question = _received(link)
        text, references = json.loads(question)
        kind, answer = _answer(text, dict(references))
        link.sendall(HEAD.pack(kind, len(answer)) + answer)


def _answer(text: str, references: Mapping[str, str]) -> tuple[int, bytes]:
    """(kind, bytes) of the answer to a request to compile."""
    from kbroker.http.registry.formats import protobuf_format

    try:
        return DESCRIPTOR, protobuf_format.compiled(text, references).SerializeToString()
    except (ValueError, RecursionError) as error:  # InvalidSchema, too
        return INVALID, str(error).encode("utf-8", "replace")
    except Failure as failure:
        log.warning("%s", failure.text)
        return FAILED, json.dumps([failure.status, failure.code, failure.text]).encode()


def _received(link: socket.socket) -> tuple[int, bytes]:
    """Kind and bytes. Raises OSError when the other side has ended."""
    kind, length = HEAD.unpack(_exactly(link, HEAD.size))
    return kind, _exactly(link, length)


def _exactly(link: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        piece = link.recv(min(length - len(found), 1 << 16))
        if not piece:
            raise ConnectionResetError("the other side has ended")
        found += piece
    return bytes(found)
