"""Another process runs protoc: its answers, its refusals, and its end."""

import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kbroker.http.registry import deadline, protoc
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.formats import InvalidSchema, protobuf_format

TEXT = 'syntax = "proto3"; import "other.proto"; message M { Other other = 1; }'
OTHER = 'syntax = "proto3"; message Other {}'


@pytest.fixture
def compiler() -> Iterator[protoc.Protoc]:
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with suppress(OSError):
            protoc._serve(theirs)

    server = threading.Thread(target=serve)
    server.start()
    yield protoc.Protoc(ours)
    ours.close()
    server.join()
    theirs.close()


def test_a_schema_is_compiled(compiler: protoc.Protoc) -> None:
    found = FileDescriptorProto.FromString(compiler.compile(TEXT, {"other.proto": OTHER}))
    assert [one.name for one in found.message_type] == ["M"]
    assert found == protobuf_format.compiled(TEXT, {"other.proto": OTHER})


@pytest.mark.parametrize("text", ["message", TEXT, "\ud800"])
def test_refusals_do_not_end_it(compiler: protoc.Protoc, text: str) -> None:
    with pytest.raises(InvalidSchema):
        compiler.compile(text, {})
    assert compiler.compile(OTHER, {})


def test_a_schema_waits_for_those_of_others_up_to_a_bound(
    compiler: protoc.Protoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "WAIT_S", 0.0)
    with compiler._lock, pytest.raises(Failure, match="at the same time") as refused:
        compiler.compile(OTHER, {})
    assert refused.value.status == 503
    assert compiler.compile(OTHER, {})


@pytest.mark.parametrize("given", [(4 << 20, 4 << 20), (4 << 20, resource.RLIM_INFINITY)])
def test_a_lower_limit_of_the_broker_stays(given: tuple[int, int]) -> None:
    """A hard limit cannot be raised without privileges."""
    code = f"from kbroker.http.registry.formats.protobuf_format import compiled; compiled({OTHER!r}, {{}})"
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, given)  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert done.returncode == 0, done.stderr


def test_its_end_refuses_a_schema() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(InvalidSchema):
        protoc.Protoc(ours).compile(OTHER, {})
    ours.close()
