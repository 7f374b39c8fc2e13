"""Regular-expression subscriptions: RE2's language, matched in time linear in the length of the name.

Kafka matches with RE2/J, which has neither back references nor look-around, so that no expression can keep the
coordinator busy. The same is had here by following all states of an automaton at once.
"""

import re
import re._constants as code  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

MAX_STATES = 100_000
"""Largest automaton; RE2 has a limit of the kind too."""

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CATEGORIES = {
    code.CATEGORY_DIGIT: "0123456789",
    code.CATEGORY_SPACE: "\t\n\f\r ",
    code.CATEGORY_WORD: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz",
}
_NEGATED = {
    code.CATEGORY_NOT_DIGIT: code.CATEGORY_DIGIT,
    code.CATEGORY_NOT_SPACE: code.CATEGORY_SPACE,
    code.CATEGORY_NOT_WORD: code.CATEGORY_WORD,
}
_START = (code.AT_BEGINNING, code.AT_BEGINNING_STRING)
_END = (code.AT_END, code.AT_END_STRING)

Test = Callable[[str], bool]


class InvalidRegex(ValueError):
    """The expression is not RE2's."""


class TopicRegex:
    """A compiled expression. Immutable."""

    def __init__(self, pattern: str) -> None:
        """Raises InvalidRegex."""
        try:
            tree = parser.parse(_translate(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidRegex(str(error)) from error
        self._ignore_case = bool(tree.state.flags & re.IGNORECASE)
        # Per state: what it tests, and where it leads to. A test of None is passed without a character;
        # one of True or False holds at the start or the end of the name.
        self._tests: list[Test | bool | None] = [None]
        self._edges: list[list[int]] = [[]]
        self._final = self._sequence(tree, 0)

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states = self._closure({0}, True, not name)
        for index, character in enumerate(name, 1):
            following = set()
            for state in states:
                test = self._tests[state]
                if callable(test) and test(character):
                    following.update(self._edges[state])
            states = self._closure(following, False, index == len(name))
            if not states:
                return False
        return self._final in states

    def _closure(self, states: Iterable[int], at_start: bool, at_end: bool) -> set[int]:
        """All states that can be reached without a character."""
        reached = set(states)
        todo = list(reached)
        while todo:
            state = todo.pop()
            test = self._tests[state]
            if test is None or (test is True and at_start) or (test is False and at_end):
                for following in self._edges[state]:
                    if following not in reached:
                        reached.add(following)
                        todo.append(following)
        return reached

    # --- construction: each part starts at a state and returns the state where it ends

    def _state(self, test: "Test | bool | None" = None) -> int:
        if len(self._tests) >= MAX_STATES:
            raise InvalidRegex("expression too large")
        self._tests.append(test)
        self._edges.append([])
        return len(self._tests) - 1

    def _step(self, start: int, test: "Test | bool | None") -> int:
        state, end = self._state(test), self._state()
        self._edges[start].append(state)
        self._edges[state].append(end)
        return end

    def _sequence(self, tree: Any, start: int) -> int:
        for operation, argument in tree:
            start = self._part(operation, argument, start)
        return start

    def _part(self, operation: Any, argument: Any, start: int) -> int:
        if operation is code.LITERAL:
            return self._step(start, self._folded({chr(argument)}.__contains__))
        if operation is code.NOT_LITERAL:
            inner = self._folded({chr(argument)}.__contains__)
            return self._step(start, lambda character: not inner(character))
        if operation is code.ANY:
            return self._step(start, lambda character: character != "\n")
        if operation is code.IN:
            return self._step(start, self._class(argument))
        if operation is code.AT:
            if argument in _START or argument in _END:
                return self._step(start, argument in _START)
            raise InvalidRegex("word boundaries are not supported")
        if operation is code.SUBPATTERN:
            _, flags_on, flags_off, tree = argument
            if flags_on or flags_off:
                raise InvalidRegex("flags inside a group are not supported")
            return self._sequence(tree, start)
        if operation is code.BRANCH:
            end = self._state()
            for tree in argument[1]:
                self._edges[self._sequence(tree, start)].append(end)
            return end
        if operation in (code.MAX_REPEAT, code.MIN_REPEAT):
            least, most, tree = argument
            return self._repeat(least, most, tree, start)
        raise InvalidRegex(f"{str(operation).lower()} is not supported")

    def _repeat(self, least: int, most: Any, tree: Any, start: int) -> int:
        if most is code.MAXREPEAT:
            for _ in range(least):
                start = self._sequence(tree, start)
            loop, end = self._state(), self._state()
            self._edges[start].append(loop)
            self._edges[self._sequence(tree, loop)].append(loop)
            self._edges[loop].append(end)
            return end
        if most > 1000:
            raise InvalidRegex("bad repetition count")
        end = self._state()
        for count in range(most):
            if count >= least:
                self._edges[start].append(end)
            start = self._sequence(tree, start)
        self._edges[start].append(end)
        return end

    def _class(self, items: Any) -> Test:
        tests: list[Test] = []
        negate = False
        for operation, argument in items:
            if operation is code.NEGATE:
                negate = True
            elif operation is code.LITERAL:
                tests.append({chr(argument)}.__contains__)
            elif operation is code.RANGE:
                tests.append(_between(*argument))
            elif argument in _NEGATED:
                tests.append(_outside(_CATEGORIES[_NEGATED[argument]]))
            else:
                tests.append(frozenset(_CATEGORIES[argument]).__contains__)
        test = self._folded(lambda character: any(each(character) for each in tests))
        return (lambda character: not test(character)) if negate else test

    def _folded(self, test: Test) -> Test:
        if not self._ignore_case:
            return test
        return lambda character: test(character) or test(character.lower()) or test(character.upper())


def _between(low: int, high: int) -> Test:
    return lambda character: low <= ord(character) <= high


def _outside(characters: str) -> Test:
    known = frozenset(characters)
    return lambda character: character not in known


def _translate(pattern: str) -> str:
    r"""RE2's POSIX classes, \z and \Q..\E in words that Python's parser knows."""
    pattern = re.sub(r"\\Q(.*?)(\\E|$)", lambda match: re.escape(match[1]), pattern, flags=re.DOTALL)
    pattern = re.sub(r"\[:(\w+):\]", lambda match: _POSIX.get(match[1].lower(), match[0]), pattern)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", pattern)


@lru_cache(maxsize=1024)
def compile_regex(pattern: str) -> TopicRegex:
    """Compiled once. Raises InvalidRegex."""
    return TopicRegex(pattern)


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The topics that an expression stands for; none when it is not valid."""
    try:
        regex = compile_regex(pattern)
    except InvalidRegex:
        return frozenset()
    return frozenset(filter(regex.matches, names))
