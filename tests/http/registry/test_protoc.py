"""Another process runs protoc: its answers, its refusals, and its end."""

import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kbroker.http.registry import compatibility, deadline, protoc
from kbroker.http.registry.decoder import SchemaDecoder
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.formats import InvalidSchema, protobuf_format
from kbroker.http.registry.schema_cache import SchemaCache
from kbroker.http.registry.topic_records import SchemaRow
from tests.http.registry.desk import Desk

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


def test_its_end_is_no_verdict_about_a_schema() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(Failure, match="has ended") as refused:
        protoc.Protoc(ours).compile(OTHER, {})
    assert (refused.value.status, refused.value.code) == (503, 50003)
    ours.close()


ENDED = subprocess.CompletedProcess[str]([], -9, "", "")
FAILED = subprocess.CompletedProcess[str]([], 1, "", "MemoryError\n")
UNUSED = "schema.proto:3:1: warning: Import other.proto is unused.\n"
WARNED = subprocess.CompletedProcess[str]([], 1, "", f"{UNUSED}MemoryError\n")
HALF = subprocess.CompletedProcess[str]([], -9, "", "schema.proto:1:1: Exp")
LATE = subprocess.TimeoutExpired([], 20)
NO_PROTOC = [
    (ENDED, 50003),
    (FAILED, 50003),
    (WARNED, 50003),
    (HALF, 50003),
    (OSError("no memory"), 50003),
    (LATE, 50002),
]
"""Ends of protoc that are no verdict, and the code of the answer."""


def ending(end: object) -> Callable[..., object]:
    """Stands for subprocess.run."""

    def run(*_: object, **__: object) -> object:
        if isinstance(end, Exception):
            raise end
        return end

    return run


@pytest.mark.parametrize(("end", "code"), NO_PROTOC)
def test_a_schema_that_protoc_has_not_refused_can_be_sent_again(
    compiler: protoc.Protoc, monkeypatch: pytest.MonkeyPatch, end: object, code: int
) -> None:
    """Not a verdict: protoc was ended, has failed for another reason, cannot be started, or is
    late."""
    monkeypatch.setattr(subprocess, "run", ending(end))
    with pytest.raises(Failure) as refused:
        compiler.compile(OTHER, {})
    assert (refused.value.code, refused.value.is_busy) == (code, True)


def test_an_end_of_protoc_is_not_kept_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as an invalid schema, nor as a schema without a normal form."""
    desk = Desk()
    body = {"schema": 'syntax = "proto3"; message EndedM {}', "schemaType": "PROTOBUF"}
    parsed = compatibility.parsed("PROTOBUF", body["schema"], ())
    row = SchemaRow("s", 1, 1, 'syntax = "proto3"; message EndedN {}', "PROTOBUF")
    decoder = SchemaDecoder(desk.topic)
    desk.topic.write(None, [(row.key(), row.value())])
    with monkeypatch.context() as failing:
        failing.setattr(subprocess, "run", ending(ENDED))
        with pytest.raises(Failure):
            decoder.find(desk.topic.state, 1)
        with pytest.raises(Failure):
            parsed.normal_text()
        failing.setattr(compatibility, "_PARSED", SchemaCache())
        assert desk("POST", "/subjects/t/versions", body)[1]["error_code"] == 50003
    assert decoder.find(desk.topic.state, 1) is not None
    assert "message" in parsed.normal_text()
    assert desk("POST", "/subjects/t/versions", body) == (200, {"id": 2})


@pytest.mark.parametrize(
    ("name", "text"),
    [("", OTHER), ("a" * 5000, OTHER), ("a\0b", OTHER), ("schema.proto/other", OTHER), ("other", "message")],
)
def test_a_reference_that_no_file_can_have_is_a_verdict(
    compiler: protoc.Protoc, name: str, text: str
) -> None:
    with pytest.raises(InvalidSchema):
        compiler.compile('syntax = "proto3"; import "other";', {name: text})


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        (1, "{root}/out.descriptors: File too large"),
        (-6, "what():  std::bad_alloc"),
        (1, UNUSED + "{root}/schema.proto:4:1: no"),
        (1, "{root}/schema.proto:1: no"),
        (1, '{root}/schema.proto:1:18: Import "a: w.proto" was not found: warning: no'),
    ],
)
def test_a_bound_of_protoc_is_a_verdict(
    compiler: protoc.Protoc, monkeypatch: pytest.MonkeyPatch, code: int, stderr: str
) -> None:
    def run(command: list[str], **_: object) -> object:
        root = next(each for each in command if each.startswith("-I")).removeprefix("-I")
        return subprocess.CompletedProcess[str]([], code, "", stderr.replace("{root}", root))

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InvalidSchema) as refused:
        compiler.compile(OTHER, {})
    assert UNUSED.strip() not in str(refused.value)
