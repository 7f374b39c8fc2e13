"""Shortcuts in numba's frontend, which takes three quarters of the time of a first start.

A profile of it (docs/lab/start.md) names places that do the same work again and again. Each is
replaced by one that keeps what it found, and steps without work are left out. What numba decides
stays the same, and so does the machine code. numba is pinned, and a test compiles with and without
them.
"""

import dis
import functools
import itertools
import operator
import sys
from collections.abc import Callable
from typing import Any

from llvmlite.ir.types import Type as LLVMType
from numba.core import ir, targetconfig, types
from numba.core.base import BaseContext
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.extending import _Intrinsic
from numba.core.types import functions
from numba.core.types.misc import unliteral
from numba.core.typing import context

from kbroker.kernels.row import Constants

LOAD_CONST = dis.opmap["LOAD_CONST"]
ATTRIBUTES_CALLED = sys.version_info >= (3, 12)
"""Whether the last bit of a LOAD_ATTR says that it is for a call."""
OPERATORS = frozenset(one for one in vars(operator).values() if callable(one))
PRECISE = (types.Integer, types.Float, types.Boolean, types.IntegerLiteral, types.BooleanLiteral, types.Array)


NOT_NEEDED = frozenset(
    {
        "InlineClosureLikes",
        "InlineInlinables",
        "InlineOverloads",
        "LiteralPropagationSubPipelinePass",
        "LiteralUnroll",
        "MakeFunctionToJitFunction",
        "NopythonRewrites",
        "WithLifting",
    }
)
"""Steps for what kernels do not have: closures, comprehensions, expressions of whole arrays,
`with`,
`literal_unroll`. Each of them goes through the whole function."""


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler without these steps."""

    def _compile_bytecode(self) -> Any:
        take_numbers(self.state.bc)
        return super()._compile_bytecode()

    def define_pipelines(self) -> list[Any]:
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.passes = [(step, text) for step, text in steps.passes if step.__name__ not in NOT_NEEDED]
        steps._finalized = False
        steps.finalize()
        return [steps]


@functools.cache
def install() -> None:
    """Use the changes of this module in this process."""
    targetconfig.TargetConfig.__eq__ = _equal
    targetconfig.TargetConfig.__hash__ = _hash
    ir.Inst._rec_list_vars = _variables
    BaseContext.refresh = _once_per_registration(BaseContext.refresh)
    typing_context = context.BaseContext
    typing_context.refresh = _once_per_registration(typing_context.refresh)
    LLVMType.get_abi_size = _once_per_type(LLVMType.get_abi_size)
    known = functions.BaseFunction
    known.get_call_type = _kept_for_operators(known.get_call_type)  # type: ignore[method-assign]


def take_numbers(code: Any) -> None:
    """Change a function's byte code (numba's `ByteCode`): a number of a class of constants or of a
    module becomes a literal, and caches, which CPython's interpreter fills, are left out.

    numba takes three of its own statements and two variables for `Class.NAME`, in each of its
    steps."""
    steps = [one for one in code.table.values() if one.opname != "CACHE"]
    for one, following in itertools.pairwise(steps):
        if not one.is_jump:  # a jump's target counts from what is next in memory
            one.next = following.offset
    code.table = {one.offset: one for one in steps}
    steps = [one for one in steps if one.opname != "NOP"]
    numbers = list(code.co_consts)
    known = code.func_id.func.__globals__
    for one, following in itertools.pairwise(steps):
        if one.opname != "LOAD_GLOBAL" or one.arg & 1:  # odd: for a call
            continue
        found, last = known.get(code.co_names[one.arg >> 1]), one
        if isinstance(found, Constants) and following.opname == "LOAD_ATTR":
            name = following.arg >> 1 if ATTRIBUTES_CALLED else following.arg
            found, last = getattr(found, code.co_names[name]), following
        if type(found) is not int:
            continue
        one.opcode, one.opname, one.arg = LOAD_CONST, "LOAD_CONST", len(numbers)
        numbers.append(found)
        if last is not one:
            one.next = last.next
            for offset in [
                offset for offset in range(one.offset + 1, last.offset + 1) if offset in code.table
            ]:
                del code.table[offset]
    code.co_consts = tuple(numbers)


def _equal(own: Any, other: object) -> Any:
    """Options of two functions. numba reads every option of both, thirty calls each."""
    if not isinstance(other, targetconfig.TargetConfig):
        return NotImplemented
    if own is other or own._values == other._values:
        return True
    return all(
        getattr(own, name) == getattr(other, name) for name in own._values.keys() | other._values.keys()
    )


def _hash(own: Any) -> int:
    """numba's hash, which depends on the kind of options only."""
    return hash(type(own))


_LEAVES: set[type] = set()
"""Types of values in which no variable can be."""


def _variables(_: Any, value: Any) -> list[Any]:
    """Variables in a value of numba's intermediate code."""
    found: list[Any] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if kind in _LEAVES:
        return
    if kind is ir.Var:
        found.append(value)
    elif isinstance(value, ir.Inst):
        found += value.list_vars()
    elif isinstance(value, list | tuple):
        for one in value:
            _collect(one, found)
    elif isinstance(value, dict):
        for one in value.values():
            _collect(one, found)
    elif isinstance(value, ir.Var):
        found.append(value)
    else:
        _LEAVES.add(kind)


def _registered(own: Any) -> list[int]:
    """The size of the registries that a context has read: they only ever grow."""
    return [
        len(getattr(registry, items))
        for registry, loader in own._registries.items()
        for items in loader.registry_items
    ]


def _once_per_registration(refresh: Callable[[Any], None]) -> Callable[[Any], None]:
    """numba looks for new registrations in 40 modules before each function."""

    def refreshed(own: Any) -> None:
        now = _registered(own)
        if vars(own).get("_refreshed_at") != now:
            refresh(own)  # may register more
            own._refreshed_at = now
        elif isinstance(own, BaseContext):
            own.typing_context.refresh()

    return refreshed


def _kept_for_operators(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """numba asks all rules for an operator in turn (arrays, strings, sets), each time it meets
    it; for an intrinsic it reads the signature of a Python function."""
    kept: dict[tuple[Any, ...], Any] = {}

    def resolved(own: Any, typing: Any, arguments: Any, named: Any) -> Any:
        if named or not all(isinstance(one, PRECISE) for one in arguments):
            return resolve(own, typing, arguments, named)
        if isinstance(own.typing_key, _Intrinsic):
            arguments = tuple(unliteral(one) for one in arguments)
        elif own.typing_key not in OPERATORS:
            return resolve(own, typing, arguments, named)
        key = (own, typing, *arguments)
        found = kept.get(key)
        if found is None:
            found = kept[key] = resolve(own, typing, arguments, named)
        return found

    return resolved


def _once_per_type(size: Callable[..., int]) -> Callable[..., int]:
    """llvmlite has LLVM read a module of text for the size of a type, at each variable."""
    kept: dict[tuple[str, str], int] = {}

    def sized(own: Any, target_data: Any, context: Any = None) -> int:
        if context is not None:  # it may have types of its own under a known name
            return size(own, target_data, context)
        key = str(own), str(target_data)
        if key not in kept:
            kept[key] = size(own, target_data)
        return kept[key]

    return sized
