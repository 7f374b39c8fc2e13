"""The operators: what each node of a syntax tree is changed to.

Each yields the name of the operator, the node whose text is replaced, and the new text.
"""

import ast
from collections.abc import Iterator

Change = tuple[str, ast.AST, str]

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITE_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
ZERO = "Outcome.TO_PYTHON"  # a name of 0
EMPTY = {"int": "0", "bool": "False", "float": "0.0", "str": "''", "bytes": "b''"}


def changes(node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    """All changes of one node, which is a part of the function."""
    match node:
        case ast.Compare():
            yield from _comparison(node)
        case ast.BinOp():
            yield from _arithmetic(node)
        case ast.AugAssign():
            yield "dropped", node, "pass"
            if other := ARITHMETIC.get(type(node.op)):
                yield "arithmetic", node, ast.unparse(ast.AugAssign(node.target, other(), node.value))
        case ast.BoolOp():
            yield from _logic(node)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, _part(node.operand)
        case ast.Constant():
            yield from _constant(node)
        case ast.Call():
            yield from _call(node)
        case ast.If() | ast.IfExp() | ast.While():
            yield from _condition(node)
        case ast.Expr() | ast.Assign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Return():
            yield from _statement(node, function)


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for at, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield "comparison", node, _part(ast.Compare(node.left, ops, node.comparators))


def _arithmetic(node: ast.BinOp) -> Iterator[Change]:
    other = ARITHMETIC.get(type(node.op))
    text = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple)
    if other and not any(isinstance(side, text) and not _is_number(side) for side in (node.left, node.right)):
        yield "arithmetic", node, _part(ast.BinOp(node.left, other(), node.right))


def _logic(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "logic", node, _part(ast.BoolOp(other, node.values))
    for at in range(len(node.values)):
        rest = [*node.values[:at], *node.values[at + 1 :]]
        yield "operand", node, _part(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def _constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "constant", node, str(not node.value)
    elif isinstance(node.value, int):
        yield "constant", node, "0" if node.value == 1 else f"({node.value + 1})"


def _call(node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id in OPPOSITE_CALLS:
        yield "opposite", node, ast.unparse(ast.Call(_name(node), node.args, node.keywords))
    for at, (one, two) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if isinstance(one, (ast.Name, ast.Attribute)) and type(one) is type(two):
            swapped = [*node.args[:at], two, one, *node.args[at + 2 :]]
            yield "swapped", node, ast.unparse(ast.Call(node.func, swapped, node.keywords))


def _condition(node: ast.If | ast.IfExp | ast.While) -> Iterator[Change]:
    if isinstance(node.test, ast.Constant):
        return
    yield "condition", node.test, "False"
    if not isinstance(node, ast.While):
        yield "condition", node.test, "True"


def _statement(node: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "dropped", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "dropped", node, "pass"
        case ast.Raise():
            yield "raise", node, "pass"
        case ast.Continue():
            yield "dropped", node, "pass"
            yield "loop", node, "break"
        case ast.Break():
            yield "loop", node, "continue"
        case ast.Return(value=None):
            if node is not function.body[-1]:
                yield "dropped", node, "pass"
        case ast.Return(value=ast.expr() as value):
            yield from _result(node, value, function.returns)


def _result(node: ast.Return, value: ast.expr, returns: ast.expr | None) -> Iterator[Change]:
    kind = ast.unparse(returns) if returns is not None else ""
    given = ast.unparse(value)
    if kind == "bool":
        if not isinstance(value, ast.Constant):
            yield "return", node, f"return not {_part(value)}"
        return
    empty = EMPTY.get(
        kind, "[]" if kind.startswith("list[") else "{}" if kind.startswith("dict[") else "None"
    )
    if given != empty and given != ZERO:
        yield "return", node, f"return {empty}"


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _name(node: ast.Call) -> ast.Name:
    assert isinstance(node.func, ast.Name)
    return ast.Name(OPPOSITE_CALLS[node.func.id], ast.Load())


def _part(node: ast.expr) -> str:
    """Text that keeps its meaning wherever it is put."""
    return f"({ast.unparse(node)})"
