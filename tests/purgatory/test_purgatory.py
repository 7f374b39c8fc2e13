"""The purgatory against a model: each operation completes exactly once, when it can and not
before."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from kbroker.purgatory.delayed_operation import DelayedOperation
from kbroker.purgatory.purgatory import SWEPT_AT_ONCE, Purgatory

KEYS = st.integers(0, 3)
PURGE_INTERVAL = 5


class Waiter(DelayedOperation):
    __slots__ = ("ends", "possible")

    def __init__(self, expiry_ms: int) -> None:
        super().__init__(expiry_ms)
        self.possible = False
        self.ends: list[bool] = []

    def can_complete(self) -> bool:
        return self.possible

    def on_complete(self, expired: bool) -> None:
        self.ends.append(expired)


class Chain(Waiter):
    """Does something when it completes."""

    __slots__ = ("then",)

    def __init__(self, expiry_ms: int, then: Callable[[], bool]) -> None:
        super().__init__(expiry_ms)
        self.then = then

    def on_complete(self, expired: bool) -> None:
        super().on_complete(expired)
        self.then()


class PurgatoryAgainstModel(RuleBasedStateMachine):
    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_700_000_000_000
        self.purgatory: Purgatory[int] = Purgatory(self.now_ms, PURGE_INTERVAL)
        self.waiting: dict[Waiter, frozenset[int]] = {}
        self.ended: dict[Waiter, list[bool]] = {}

    def _ends(self, waiter: Waiter, expired: bool) -> None:
        del self.waiting[waiter]
        self.ended[waiter] = [expired]

    @rule(
        target=waiters,
        keys=st.frozensets(KEYS),
        delay=st.integers(0, 200),
        possible=st.booleans(),
        each=st.booleans(),
    )
    def watch(self, keys: frozenset[int], delay: int, possible: bool, each: bool) -> Waiter:
        waiter = Waiter(self.now_ms + delay)
        waiter.possible = possible
        self.waiting[waiter] = keys
        watch = self.purgatory.watch_each if each else self.purgatory.watch
        assert watch(waiter, keys) == possible
        if possible:
            self._ends(waiter, False)
        return waiter

    @rule(waiter=waiters, possible=st.booleans())
    def change(self, waiter: Waiter, possible: bool) -> None:
        waiter.possible = possible

    @rule(key=KEYS)
    def check(self, key: int) -> None:
        able = [each for each, keys in self.waiting.items() if key in keys and each.possible]
        assert self.purgatory.check_and_complete(key) == len(able)
        for waiter in able:
            self._ends(waiter, False)

    @rule(waiter=waiters)
    def force(self, waiter: Waiter) -> None:
        assert self.purgatory.complete(waiter) == (waiter in self.waiting)
        if waiter in self.waiting:
            self._ends(waiter, False)

    @rule(waiter=consumes(waiters))
    def cancel(self, waiter: Waiter) -> None:
        assert self.purgatory.cancel(waiter) == (waiter in self.waiting)
        if waiter in self.waiting:
            del self.waiting[waiter]
            self.ended[waiter] = []

    @rule(target=waiters, step=st.integers(0, 100))
    def expire(self, step: int):  # type: ignore[no-untyped-def]
        self.now_ms += step
        late = [each for each in self.waiting if each.expiry_ms <= self.now_ms]
        assert self.purgatory.expire(self.now_ms) == len(late)
        for waiter in late:
            self._ends(waiter, True)
        return multiple()

    @invariant()
    def each_ended_once(self) -> None:
        assert all(waiter.ends == ends for waiter, ends in self.ended.items())
        assert not any(waiter.ends for waiter in self.waiting)

    @invariant()
    def sizes_agree(self) -> None:
        assert self.purgatory.delayed == len(self.waiting)
        live = sum(map(len, self.waiting.values()))
        assert live <= self.purgatory.watched <= live + 4 * (PURGE_INTERVAL + 1)


TestPurgatoryAgainstModel = PurgatoryAgainstModel.TestCase


def test_an_event_during_registration_is_not_missed() -> None:
    """The second look: the condition turns true between the first look and the announcement."""
    waiter = Waiter(100)
    announced = []

    def announce(key: str) -> None:
        announced.append(key)
        waiter.possible = True

    purgatory = Purgatory[str](0, announce=announce)
    assert purgatory.watch(waiter, ("a", "b"))
    assert announced == ["a", "b"]
    assert waiter.ends == [False]
    assert purgatory.delayed == 0
    assert purgatory.expire(1000) == 0


def test_an_operation_completed_here_may_watch_the_same_key_again() -> None:
    purgatory = Purgatory[str](0)
    stays, again = Waiter(100), Waiter(100)
    comes = Chain(100, lambda: purgatory.watch(again, ("key",)))
    purgatory.watch(stays, ("key",))
    purgatory.watch(comes, ("key",))
    comes.possible = True
    assert purgatory.check_and_complete("key") == 1
    again.possible = stays.possible = True
    assert purgatory.check_and_complete("key") == 2


def test_an_operation_that_completes_another_while_expiring_does_so_once() -> None:
    purgatory = Purgatory[str](0)
    second = Waiter(10)
    purgatory.watch(Chain(10, lambda: purgatory.complete(second)), ("key",))
    purgatory.watch(second, ("key",))
    purgatory.expire(10)
    assert second.ends == [False]


@pytest.mark.parametrize("count", [PURGE_INTERVAL + 1, 50])
def test_lists_of_keys_that_nothing_happens_to_are_swept(count: int) -> None:
    purgatory = Purgatory[int](0, PURGE_INTERVAL)
    for number in range(count):
        purgatory.watch(Waiter(1), (number, -1))
    purgatory.expire(1)
    assert purgatory.watched <= 2 * PURGE_INTERVAL


def test_a_purge_of_very_many_lists_goes_in_parts() -> None:
    """One for each operation that completes, until all lists are swept."""
    purgatory = Purgatory[int](0, PURGE_INTERVAL)
    keys = 4 * SWEPT_AT_ONCE
    purgatory.watch(Waiter(1), range(keys))
    purgatory.expire(1)
    sizes = []
    for number in range(PURGE_INTERVAL + 4):
        purgatory.watch(Waiter(2 + number), ())
        purgatory.expire(2 + number)
        sizes.append(purgatory.watched)
    assert sizes[: PURGE_INTERVAL - 1] == [keys] * (PURGE_INTERVAL - 1)
    assert [a - b for a, b in pairwise(sizes[PURGE_INTERVAL - 2 :]) if a != b] == [SWEPT_AT_ONCE] * 4
    assert sizes[-1] == 0


def test_a_list_that_is_gone_before_its_turn_in_a_purge_is_passed_over() -> None:
    purgatory: Purgatory[int] = Purgatory(0)
    waiting, done = Waiter(10), Waiter(10)
    purgatory.watch(waiting, [1])
    purgatory.watch(done, [2])
    purgatory.complete(done)
    purgatory.sweep([3, 2, 1])
    assert [purgatory.waits_for(key) for key in (1, 2, 3)] == [True, False, False]


def test_operations_expire_after_one_that_fails() -> None:
    purgatory: Purgatory[int] = Purgatory(0)
    first, ended, last = (Waiter(5) for _ in range(3))

    def fail() -> bool:
        purgatory.complete(ended)
        raise ValueError("a bug")

    failing = Chain(5, fail)
    for waiter in (first, failing, ended, last):
        purgatory.watch(waiter, [1])
    with pytest.raises(ValueError, match="a bug"):
        purgatory.expire(10)
    assert purgatory.delayed == 1
    assert purgatory.next_expiry_ms() == 10
    assert purgatory.expire(10) == 1
    assert [waiter.ends for waiter in (first, failing, ended, last)] == [[True], [True], [False], [True]]
