"""What is changed and what is left alone."""

import ast

import pytest

from tests.mutants.module_mutants import mutants_of

MODULE = "kbroker/io/example.py"


def texts(source: str) -> set[tuple[str, str]]:
    return {(each.before, each.after) for each in mutants_of(MODULE, source)}


@pytest.mark.parametrize(
    ("statement", "before", "after"),
    [
        ("return a < b", "a < b", "(a <= b)"),
        ("x = a == b", "a == b", "(a != b)"),
        ("x = min(a, b)", "min(a, b)", "max(a, b)"),
        ("x = a + b", "a + b", "(a - b)"),
        ("x = a and b", "a and b", "(a or b)"),
        ("x = a and b", "a and b", "(b)"),
        ("x = not a", "not a", "(a)"),
        ("x = 0", "0", "(1)"),
        ("x = True", "True", "False"),
        ("a.fence(b)", "a.fence(b)", "pass"),
        ("a.epoch = b", "a.epoch = b", "pass"),
        ("a.epoch += b", "a.epoch += b", "a.epoch -= b"),
        ("raise ValueError", "raise ValueError", "pass"),
        ("x = f(a, b)", "f(a, b)", "f(b, a)"),
        ("x = a if b else c", "b", "False"),
    ],
)
def test_each_operator_changes_its_node(statement: str, before: str, after: str) -> None:
    assert (before, after) in texts(f"def f(a, b, c):\n    {statement}\n")


@pytest.mark.parametrize(
    ("returns", "after"),
    [
        ("int", "return 0"),
        ("bool", "return not (a.x)"),
        ("list[int]", "return []"),
        ("X | None", "return None"),
    ],
)
def test_a_result_is_replaced_by_an_empty_one_of_its_type(returns: str, after: str) -> None:
    assert ("return a.x", after) in texts(f"def f(a) -> {returns}:\n    return a.x\n")


@pytest.mark.parametrize(
    "source",
    [
        'def f(a: int = 3) -> "list[int]":\n    """1 < 2"""\n',
        "def f(a):\n    log.info('%d', a + 1)\n",
        "def f(a):\n    assert a > 0\n",
        "LIMIT = 3\n",
        "def __repr__(self):\n    return str(1 + 2)\n",
    ],
)
def test_descriptions_have_no_mutants(source: str) -> None:
    assert not mutants_of(MODULE, source)


def test_every_mutant_is_python_that_differs_and_has_a_key_of_its_own() -> None:
    source = (
        'def f(a, b):\n    x = "é" if a < 1 else b  # why\n'
        "    if a < 1 and (a\n        < b):\n        return min(1, 1)\n"
    )
    found = mutants_of(MODULE, source)
    for mutant in found:
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source)), mutant
    assert len({each.key for each in found}) == len(found) > 15


def test_a_key_stays_when_lines_are_put_before() -> None:
    source = "def f(a, b):\n    return a < b\n"
    assert [each.key for each in mutants_of(MODULE, source)] == [
        each.key for each in mutants_of(MODULE, "import os\n\n\n" + source)
    ]
