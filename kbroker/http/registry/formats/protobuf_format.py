"""Protocol Buffers: parsed by protoc (in a separate process), compared by descriptors.

A schema is the text of a .proto file, or base64 of a FileDescriptorProto from clients that lack the
text."""

import base64
import binascii
import errno
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from kbroker.http.registry import failure
from kbroker.http.registry.deadline import Deadline
from kbroker.http.registry.formats import InvalidSchema, Resolved
from kbroker.http.registry.formats.protobuf_text import normal_text

MAIN = "schema.proto"
LIMIT_S = 20
"""Maximum time to parse one schema, with all schemas that it refers to."""
MAX_PROTOC_BYTES = 1 << 30
MAX_DESCRIPTOR_BYTES = 8 << 20
"""A descriptor has the whole name of a type at each field: a short text may have a very long
one."""
NO_FILE_NAME = (errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR)
"""Errors of names of references that cannot be those of files, or not at the same time."""
WELL_KNOWN = (Path(grpc_tools.__file__).parent / "_proto", Path(__file__).parent / "protos")
"""Folders of the files that need no reference. The second has those of google/type and of
Confluent, which its registry knows: its serializers send no reference to them."""
_KIND = FieldDescriptorProto
_WARNING = re.compile(r"[^:]+(:\d+:\d+)?: warning: ")
"""A line of protoc, not text of a schema within one."""
GROUPS = (
    {_KIND.TYPE_INT32, _KIND.TYPE_UINT32, _KIND.TYPE_INT64, _KIND.TYPE_UINT64, _KIND.TYPE_BOOL},
    {_KIND.TYPE_SINT32, _KIND.TYPE_SINT64},
    {_KIND.TYPE_STRING, _KIND.TYPE_BYTES},
    {_KIND.TYPE_FIXED32, _KIND.TYPE_SFIXED32},
    {_KIND.TYPE_FIXED64, _KIND.TYPE_SFIXED64},
)
"""Groups of scalar types with compatible encodings."""
NAMED = (_KIND.TYPE_MESSAGE, _KIND.TYPE_ENUM, _KIND.TYPE_GROUP)
_Change = tuple[str, str]


class ProtobufSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Resolved) -> None:
        self.canonical = text.strip() if (encoded := _decoded(text)) is None else text
        self._references = references
        self._normal_text: str | None = None
        self.file = _compiled(text, references) if encoded is None else _checked(encoded, references)
        self.file.ClearField("source_code_info")

    def normalized(self) -> str:
        copy = FileDescriptorProto()
        copy.CopyFrom(self.file)
        copy.name = MAIN
        return base64.b64encode(copy.SerializeToString(deterministic=True)).decode()

    def normal_text(self) -> str:
        """The schema's text in normal form; the given text if that has no normal form."""
        if self._normal_text is None:
            self._normal_text = normal_text(self.file, self._again)
        return self._normal_text or self.canonical

    def _again(self, text: str) -> FileDescriptorProto | None:
        try:
            return _compiled(text, self._references)
        except InvalidSchema:
            return None

    def reads(self, written: "ProtobufSchema") -> list[str]:
        return [
            f'{{errorType:"{kind}", description:"The change at path \'{path}\' is not compatible", additionalInfo:""}}'
            for kind, path in dict.fromkeys(_files(written.file, self.file))
        ]


def parse(text: str, references: Resolved) -> ProtobufSchema:
    """Raises InvalidSchema, Failure."""
    return ProtobufSchema(text, references)


def _decoded(text: str) -> FileDescriptorProto | None:
    """The descriptor from base64; None for the text of a .proto file."""
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return found if found.ListFields() else None


_ELSEWHERE: list[Callable[[str, Resolved], bytes]] = []


def use(compiler: Callable[[str, Resolved], bytes]) -> None:
    """Let `compiler`, another process, run protoc from now on."""
    _ELSEWHERE[:] = [compiler]


def _compiled(text: str, references: Resolved) -> FileDescriptorProto:
    """The descriptor of a file. Raises InvalidSchema, Failure."""
    if _ELSEWHERE:
        return FileDescriptorProto.FromString(_ELSEWHERE[0](text, references))
    return compiled(text, references)


def compiled(text: str, references: Resolved) -> FileDescriptorProto:
    """The descriptor of a file, from protoc, which is started here. Raises InvalidSchema, and
    Failure if that is no verdict about the schema: protoc cannot be started, is ended, or takes too
    long."""
    try:
        with tempfile.TemporaryDirectory(prefix="kbroker-proto-") as folder:
            root = Path(folder)
            for name, one in {**references, MAIN: text}.items():
                _put(root, name, one)
            out = root / "out.descriptors"
            done = _protoc(root, out)
            if done.returncode:
                raise InvalidSchema(_verdict(done, root, out))
            return FileDescriptorSet.FromString(out.read_bytes()).file[0]
    except subprocess.TimeoutExpired:
        raise failure.timed_out(f"protoc has not ended in {LIMIT_S} s") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise failure.unavailable(f"protoc cannot run: {error}") from error


def _put(root: Path, name: str, text: str) -> None:
    """Write a .proto file for protoc. Raises InvalidSchema, OSError."""
    if _decoded(text) is not None:
        raise InvalidSchema(f"{name} is a descriptor; a .proto file can only refer to .proto files")
    try:
        file = (root / name).resolve()
        if not file.is_relative_to(root.resolve()):
            raise InvalidSchema(f"a reference named {name!r}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        if error.errno in NO_FILE_NAME:
            raise InvalidSchema(f"a reference named {name[:200]!r}") from None
        raise


def _protoc(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Raises OSError, SubprocessError."""
    python = (sys.executable, "-P")  # no module of the working directory, which may be another user's
    command = [*python, "-m", "grpc_tools.protoc", *(f"-I{each}" for each in (root, *WELL_KNOWN))]
    return subprocess.run(
        [*command, f"--descriptor_set_out={out}", MAIN],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        preexec_fn=_bounded,
    )


def _verdict(done: subprocess.CompletedProcess[str], root: Path, out: Path) -> str:
    """Why protoc refuses a schema. Raises Failure if it does not: it was ended, or has failed for
    another reason."""
    if f"{out}: File too large" in done.stderr:
        return f"its descriptor has more than {MAX_DESCRIPTOR_BYTES} bytes"
    if done.returncode == -signal.SIGABRT and "bad_alloc" in done.stderr:
        return f"protoc needs more than {MAX_PROTOC_BYTES} bytes of memory"
    if done.returncode < 0:
        raise failure.unavailable(f"protoc was ended by signal {-done.returncode}; try again")
    if found := " ".join(_of_protoc(done.stderr, root).split()):
        return found
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    raise failure.unavailable(f"protoc has failed: {lines[-1][:500]}")


def _bounded() -> None:
    """Limit memory and file size of this process before it executes protoc. A lower limit of the
    broker stays."""
    limits = {resource.RLIMIT_AS: MAX_PROTOC_BYTES, resource.RLIMIT_FSIZE: MAX_DESCRIPTOR_BYTES}
    for kind, maximum in limits.items():
        given = [each for each in resource.getrlimit(kind) if each != resource.RLIM_INFINITY]
        lowest = min([maximum, *given])
        resource.setrlimit(kind, (lowest, lowest))


def _of_protoc(stderr: str, root: Path) -> str:
    """protoc's own error lines, without warnings, log lines of its library and the temporary
    folder."""
    lines = stderr.replace(f"{root}/", "").splitlines()
    errors = (line for line in lines if not _WARNING.match(line))
    return " ".join(line for line in errors if ".proto:" in line or line.startswith("schema."))


def _checked(file: FileDescriptorProto, references: Resolved) -> FileDescriptorProto:
    """The descriptor, after a check that all of its types are defined. Raises InvalidSchema,
    Failure."""
    pool = DescriptorPool()
    added = set(references)
    deadline = Deadline(LIMIT_S)
    try:
        for name in dict.fromkeys((*references, *file.dependency)):
            if deadline.is_over:
                raise failure.timed_out(f"not parsed in {LIMIT_S} s")
            if name in added and name not in references:
                continue
            known = well_known(name) if name not in references else _decoded(references[name])
            if known is None and name in references:
                earlier = dict(list(references.items())[: list(references).index(name)])
                known = _compiled(references[name], earlier)
            if known is None:
                raise InvalidSchema(f"no reference for its import {name}")
            known.name = name
            _add(pool, known, added)
        copy = FileDescriptorProto()
        copy.CopyFrom(file)
        copy.name = copy.name or MAIN
        _add(pool, copy, added)
        pool.FindFileByName(copy.name)
    except (TypeError, KeyError) as error:
        raise InvalidSchema(" ".join(str(error).split())) from None
    return file


def _add(pool: DescriptorPool, file: FileDescriptorProto, added: set[str]) -> None:
    """Add a file, after the well-known files that it imports: a reference may import some that the
    schema itself does not."""
    for name in file.dependency:
        known = None if name in added else well_known(name)
        if known is not None:
            known.name = name
            _add(pool, known, added)
    added.add(file.name)
    pool.Add(file)


def well_known(name: str) -> FileDescriptorProto | None:
    """Google's and Confluent's own files, which need no reference."""
    if name not in _well_known_files():
        return None
    return FileDescriptorProto.FromString(_well_known(name))


@cache
def _well_known_files() -> dict[str, Path]:
    """Name in an import statement -> the file of the well-known types."""
    return {
        file.relative_to(folder).as_posix(): file for folder in WELL_KNOWN for file in folder.rglob("*.proto")
    }


@cache
def _well_known(name: str) -> bytes:
    text = _well_known_files()[name].read_text(encoding="utf-8")
    return _compiled(text, {}).SerializeToString()


def _files(old: FileDescriptorProto, new: FileDescriptorProto) -> Iterator[_Change]:
    if old.package != new.package:
        yield "PACKAGE_CHANGED", "#/"
    messages = {one.name: one for one in new.message_type}
    for one in old.message_type:
        if one.name not in messages:
            yield "MESSAGE_REMOVED", f"#/{one.name}"
        else:
            yield from _messages(one, messages[one.name], f"#/{one.name}")
    yield from _enums(old.enum_type, new.enum_type, "#")


def _enums(
    old: Iterable[EnumDescriptorProto], new: Iterable[EnumDescriptorProto], path: str
) -> Iterator[_Change]:
    kept = {one.name for one in new}
    yield from (("ENUM_REMOVED", f"{path}/{one.name}") for one in old if one.name not in kept)


def _messages(old: DescriptorProto, new: DescriptorProto, path: str) -> Iterator[_Change]:
    nested = {one.name: one for one in new.nested_type}
    for one in old.nested_type:
        if one.name in nested:
            yield from _messages(one, nested[one.name], f"{path}/{one.name}")
        elif not one.options.map_entry:
            yield "MESSAGE_REMOVED", f"{path}/{one.name}"
    yield from _enums(old.enum_type, new.enum_type, path)
    before, after = ({one.number: one for one in side.field} for side in (old, new))
    for number, field in after.items():
        if number not in before and field.label == _KIND.LABEL_REQUIRED:
            yield "REQUIRED_FIELD_ADDED", f"{path}/{number}"
    for number, field in before.items():
        if number in after:
            yield from _fields(field, after[number], f"{path}/{number}")
        elif field.label == _KIND.LABEL_REQUIRED:
            yield "REQUIRED_FIELD_REMOVED", f"{path}/{number}"
        elif _oneof(old, field):
            yield "ONEOF_FIELD_REMOVED", f"{path}/{_oneof(old, field)}/{number}"
    moved = Counter(
        _oneof(new, field)
        for number, field in after.items()
        if number in before and not _oneof(old, before[number])
    )
    for name, count in moved.items():
        if name and count > 1:
            yield "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}"


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """The name of a field's oneof; empty if it has none, as an optional field of proto3."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return message.oneof_decl[field.oneof_index].name


def _fields(old: FieldDescriptorProto, new: FieldDescriptorProto, path: str) -> Iterator[_Change]:
    if (old.type in NAMED) != (new.type in NAMED):
        yield "FIELD_KIND_CHANGED", path
    elif old.type in NAMED:
        if old.type != new.type:
            yield "FIELD_KIND_CHANGED", path
        elif old.type_name != new.type_name:
            yield "FIELD_NAMED_TYPE_CHANGED", path
    elif old.type != new.type and not any({old.type, new.type} <= group for group in GROUPS):
        yield "FIELD_SCALAR_KIND_CHANGED", path
    repeated = _KIND.LABEL_REPEATED
    if (old.label == repeated) != (new.label == repeated):
        if new.type in (_KIND.TYPE_STRING, _KIND.TYPE_BYTES):
            yield "FIELD_STRING_OR_BYTES_LABEL_CHANGED", path
        elif new.type not in (_KIND.TYPE_MESSAGE, _KIND.TYPE_GROUP):
            yield "FIELD_NUMERIC_LABEL_CHANGED", path
    if old.label == _KIND.LABEL_REQUIRED and new.label != _KIND.LABEL_REQUIRED:
        yield "REQUIRED_FIELD_REMOVED", path
    if new.label == _KIND.LABEL_REQUIRED and old.label != _KIND.LABEL_REQUIRED:
        yield "REQUIRED_FIELD_ADDED", path
