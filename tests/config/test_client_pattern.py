"""Regular expressions: the same answers as Python's own on their common language, and time that
stays linear."""

import re
import time
import weakref

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kbroker.config.client_pattern import (
    LONG_PATTERN,
    LONG_REMEMBERED,
    ClientPattern,
    InvalidPattern,
    compile_pattern,
)
from kbroker.control.groups.consumer_group import regex
from kbroker.control.groups.consumer_group.regex import matching_topics
from kbroker.protocol.slices import SLICE_NS, Work
from tests.callbacks import slowness

ATOMS = st.sampled_from(["a", "b", "-", ".", r"\.", "[ab]", "[^a]", "[a-c_]", r"\d", r"\w", r"\S", "x?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.map("({})*".format),
        inner.map("(?:{})+".format),
        inner.map("({})?".format),
        inner.map("({}){{1,3}}".format),
        inner.map("^{}$".format),
    ),
    max_leaves=8,
)


QUANTIFIER = re.compile(r"(?<!\()[?*+{]")


@given(PATTERNS, st.text("ab-_.x19", max_size=8))
def test_agrees_with_python(pattern: str, name: str) -> None:
    # three within each other take Python's backtracking seconds
    assume(len(QUANTIFIER.findall(pattern)) <= 2)
    assert ClientPattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        (".*", "", True),
        ("(?i)ORDERS.*", "orders-x", True),
        ("[[:alpha:]]+[[:digit:]]", "abc1", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E.*", "axbc", False),
        (r"^a.*b\z", "a-b", True),
        ("a|bc", "bc", True),
        ("a{2,}", "aaa", True),
        ("a*?", "aa", True),
        ("", "", True),
    ],
)
def test_examples_match_as_in_re2(pattern: str, name: str, matches: bool) -> None:
    assert ClientPattern(pattern).matches(name) is matches


@pytest.mark.parametrize(
    "pattern",
    ["(", "[a", "a**", r"(a)\1", "(?=a)", "(?<!a)b", "a{1001}", r"\p", "*", r"\C", "\ud800", "a" * 40_000],
)
def test_a_pattern_that_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        ClientPattern(pattern)
    assert matching_topics(pattern, ["a"]) == frozenset()


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("g-[", "missing closing ]"),
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("+a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2,1}", "invalid repeat count"),
        ("a\\", "trailing backslash at end of expression"),
        (r"\q", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        (r"\pX", "invalid character class range"),
        ("[z-a]", "invalid character class range"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid named capture"),
        ("(?<!a)", "invalid named capture"),
        ("(?P<n!>a)", "invalid named capture"),
    ],
)
def test_the_reason_is_in_the_words_of_kafkas_re2j(pattern: str, why: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        ClientPattern(pattern)
    assert str(refused.value) == why


def test_an_expression_that_would_keep_python_busy_for_years_is_quick() -> None:
    began = time.thread_time()
    assert not ClientPattern("(a*)*(a|aa)+b").matches("a" * 249)
    assert time.thread_time() - began < 5 * slowness()


@pytest.mark.parametrize(
    "pattern",
    ["a?" * 4000, r"\pL" * 2700, "(?i)" + r"\PL" * 2700, "x{1,1000}" * 900, "x{1000}" * 1000, "(a?)*" * 6000],
)
def test_a_pattern_that_takes_long_to_compile_is_refused_at_once(pattern: str) -> None:
    """With 32,000 characters they took RE2 up to 2 s."""
    began = time.thread_time()
    with pytest.raises(InvalidPattern, match="expression too large"):
        ClientPattern(pattern)
    assert time.thread_time() - began < 0.1 * slowness()


@pytest.mark.parametrize("pattern", ["(a?)*" * 1500, "(a?b*)*" * 1000, "a?b?" * 900, "(|a)" * 2000])
def test_a_pattern_of_very_many_groups_is_matched_quickly(pattern: str) -> None:
    """Without a bound, and with groups that are captured, one name took RE2 47 s."""
    began = time.thread_time()
    assert not ClientPattern(pattern).matches("a" * 248 + "!")
    assert time.thread_time() - began < slowness()


class Slow:
    """An expression that takes two slices for each name."""

    def matches(self, _: str) -> bool:
        ends_ns = time.thread_time_ns() + 2 * SLICE_NS
        while time.thread_time_ns() < ends_ns:
            pass
        return True


def test_a_slice_ends_with_a_name_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "compile_pattern", lambda _: Slow())
    work = Work(lambda: matching_topics("x", ["a", "b", "c", "d"]))
    found = work.run_slice()
    while not work.done:
        found = work.run_slice()
    assert found == {"a", "b", "c", "d"}
    assert work.slices == 4


@pytest.mark.parametrize("around", ["{}", "^{}$", "({})", "^(?:{})$"])
def test_names_as_alternatives_may_be_longer(around: str) -> None:
    names = [f"team-{number:04}.orders" for number in range(1500)]
    pattern = ClientPattern(around.format("|".join(names).replace(".", r"\.")))
    assert [pattern.matches(name) for name in (names[0], names[-1], "team-0000xorders")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("around", ["{}", "^{}$", "({})", "^(?:{})$"])
@pytest.mark.parametrize("end", [".*", ".+"])
def test_prefixes_as_alternatives_may_be_longer(around: str, end: str) -> None:
    prefixes = [rf"company\.team-{number:04}\.{end}" for number in range(1300)]
    pattern = ClientPattern(around.format("|".join(prefixes)))
    names = ("company.team-0000.a", "company.team-1299.a.b", "company.team-1300.a", "company.team-0000xa")
    assert [pattern.matches(name) for name in names] == [True, True, False, False]
    assert pattern.matches("company.team-0000.") == (end == ".*")


@pytest.mark.parametrize("pattern", ["|".join(["a.*|b.*"] * 2000), "|".join(["a.+|..+"] * 2000)])
def test_very_many_prefixes_are_refused(pattern: str) -> None:
    """RE2 takes 40 ms to compile them, and a second for a long text."""
    with pytest.raises(InvalidPattern, match="expression too large"):
        ClientPattern(pattern)
    assert not ClientPattern(pattern[: 4 * 1500 - 1]).matches("a" + "b" * 32_000)


def test_a_long_text_is_matched_unless_the_pattern_is_long_too() -> None:
    text = "a" * 32_000
    assert ClientPattern(".*a").matches(text)
    assert not ClientPattern("(?:a|b*)*" * 500).matches(text)


def test_a_pattern_takes_no_more_memory_than_it_may() -> None:
    with pytest.raises(InvalidPattern):
        ClientPattern("(" + "a{100}" * 300 + "){10}" + "b{1000}" * 300)


def test_few_long_patterns_are_kept() -> None:
    """256 of them took control 200 MB."""
    texts = [f"{number}" + "x" * LONG_PATTERN for number in range(2 * LONG_REMEMBERED)]
    made = [weakref.ref(compile_pattern(text)) for text in texts]
    assert sum(each() is not None for each in made) == LONG_REMEMBERED
    assert compile_pattern(texts[-1]) is made[-1]()
    assert compile_pattern("short") is compile_pattern("short")
