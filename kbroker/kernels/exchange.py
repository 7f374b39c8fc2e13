"""Compiled parts that processes of one first start give each other, so that none compiles what
another has compiled or is compiling.

A part goes to a file of a folder that only these processes use: its code as LLVM's bitcode, all
else as data, whose reading runs nothing. The first that needs it holds a lock on its name
meanwhile; the others wait for the lock, and find the file. The operating system lets go of the lock
of a process that dies. Locks come in the order of calls, in which there are no circles, so that no
two processes wait for each other.
"""

import fcntl
import hashlib
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from llvmlite import binding as llvm
from msgspec import Struct
from numba.core import types as numba_types
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import compile_result
from numba.core.funcdesc import FunctionDescriptor
from numba.core.typing import signature

NUMBERS = 1_000_000
"""Size of a process's range of function numbers, which are in the names of compiled functions."""
types: Any = numba_types
SAME = (types.Number, types.Boolean, types.NoneType, types.Array)
"""Types with the same meaning and the same name in every process."""
NAMED: dict[str, Any] = {str(one): one for one in (*types.number_domain, types.boolean, types.none)}
"""The types of results without parts of their own."""
TUPLE, CONSTANT = "tuple", "constant"
Spelled = str | list[Any]


class Received:
    """The code of a part that another process compiled, as far as a `KernelLibrary` needs it that
    links it."""

    _finalized = False

    def __init__(self, code: bytes, calls: list[Any]) -> None:
        self.code = code
        self._linking_libraries = calls
        self._reload_init: set[Any] = set()
        self._parsed: Any = None

    @property
    def _shared_module(self) -> Any:
        if self._parsed is None:
            self._parsed = llvm.parse_bitcode(self.code)
        return self._parsed


class _Sent(Struct, frozen=True):
    """The content of a part's file. result: its type. calls: keys of what it calls."""

    result: Spelled
    module: str
    qualified_name: str
    unique_name: str
    mangled_name: str
    arguments: tuple[str, ...]
    inline: bool
    noalias: bool
    code: bytes
    calls: list[str]


def plain(kind: Any) -> bool:
    """Whether a type means the same in every process."""
    if isinstance(kind, types.BaseTuple):
        return all(plain(one) for one in kind)
    return isinstance(kind, SAME)


def spelled(kind: Any) -> Spelled | None:
    """The type of a result as data; None for one that is not exchanged."""
    if NAMED.get(str(kind)) == kind:
        return str(kind)
    if isinstance(kind, types.IntegerLiteral | types.BooleanLiteral):
        return [CONSTANT, kind.literal_value]
    if type(kind) in (types.UniTuple, types.Tuple):
        parts = [spelled(one) for one in kind]
        return None if None in parts else [TUPLE, *parts]
    return None


def read(text: Spelled) -> Any:
    """The type that `spelled` wrote."""
    if isinstance(text, str):
        return NAMED[text]
    form, *values = text
    if form == CONSTANT:
        return types.literal(values[0])
    return types.Tuple([read(one) for one in values])


class Exchange:
    """One process's view of the folder. Runs in: the processes that compile."""

    def __init__(self, folder: Path, worker: int) -> None:
        self._folder = folder
        self._libraries: dict[str, Any] = {}
        self._keys: dict[Any, str] = {}
        FunctionIdentity._unique_ids = itertools.count((1 + worker) * NUMBERS)

    @contextmanager
    def claimed(self, name: str) -> Iterator[None]:
        """A block in which only this process compiles the part with this name."""
        file = os.open(self._folder / f"{_digest(name.encode())}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def received(self, name: str, arguments: tuple[Any, ...]) -> Any | None:
        """numba's result for a part, compiled by another process; None when there is none yet."""
        key = _digest(name.encode())
        try:
            sent = self._read(key)
        except FileNotFoundError:
            return None
        result = read(sent.result)
        described = FunctionDescriptor(
            native=True,
            modname=sent.module,
            qualname=sent.qualified_name,
            unique_name=sent.unique_name,
            doc="",
            typemap=None,
            restype=result,
            calltypes=None,
            args=list(sent.arguments),
            kws=(),
            mangler=lambda *_, **__: sent.mangled_name,
            argtypes=arguments,
            inline=sent.inline,
            noalias=sent.noalias,
        )
        return compile_result(
            signature=signature(result, *arguments),
            fndesc=described,
            library=self._library(key, sent),
            objectmode=False,
        )

    def send(self, name: str, found: Any, for_linking: Any) -> None:
        """Give others a part. for_linking: of a library, the module that others link."""
        described, library = found.fndesc, found.library
        result = spelled(found.signature.return_type)
        if library._reload_init or result is None:
            return
        key = _digest(name.encode())
        sent = _Sent(
            result,
            described.modname,
            described.qualname,
            described.unique_name,
            described.mangled_name,
            tuple(described.args),
            described.inline,
            described.noalias,
            for_linking(library).as_bitcode(),
            [self._key(one, for_linking) for one in library._linking_libraries],
        )
        self._write(key, sent)
        self._libraries[key], self._keys[library] = library, key

    def _key(self, library: Any, for_linking: Any) -> str:
        """The key of a library that a part calls; what is no part is written under its content."""
        if library not in self._keys:
            code = for_linking(library).as_bitcode()
            called = [] if library._finalized else library._linking_libraries
            calls = [self._key(one, for_linking) for one in called]
            key = _digest(code + "".join(calls).encode())
            if not (self._folder / key).exists():
                self._write(key, _Sent("", "", "", "", "", (), False, False, code, calls))
            self._libraries[key], self._keys[library] = library, key
        return self._keys[library]

    def _library(self, key: str, sent: _Sent | None = None) -> Any:
        if key not in self._libraries:
            sent = sent or self._read(key)
            library = Received(sent.code, [self._library(one) for one in sent.calls])
            self._libraries[key], self._keys[library] = library, key
        return self._libraries[key]

    def _read(self, key: str) -> _Sent:
        return msgspec.msgpack.decode((self._folder / key).read_bytes(), type=_Sent)

    def _write(self, key: str, sent: _Sent) -> None:
        unfinished = self._folder / f"{key}.{os.getpid()}"
        unfinished.write_bytes(msgspec.msgpack.encode(sent))
        unfinished.rename(self._folder / key)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
