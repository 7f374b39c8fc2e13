"""Consent to begin a transaction on a partition (docs/adr/0006; io/append/append_kernel.py,
check_producer; net/produce/transaction_checks.py; control/transactions).

A producer pipelines batches of one transaction. The IO worker appends a batch that continues an
open transaction. A batch that would begin one is answered UNVERIFIED, with the end of the
producer's last transaction on the partition (`last_end`). The network process then asks control and
pushes the batch again with that number. Meanwhile control may end the transaction (after a timeout)
and append its marker to the partition; markers of another producer may arrive, too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

BATCHES = 3
NOT_VERIFIED, APPENDED = -1, -2
MARKER, OTHERS_MARKER = 0, -1


class Batch(NamedTuple):
    """An entry of the append ring, or a held entry. verified_at: NOT_VERIFIED, or the end in the
    answer."""

    number: int
    verified_at: int = NOT_VERIFIED


class ConsentState(NamedTuple):
    """ring: to the IO worker. log: numbers of batches and markers. open_in_log: the state in the
    worker's producer table. last_end: of this producer; others_end: of the other one. answers:
    completions. waiting: held until control answers; requested: batches of the pending request to
    control; allowed: to be pushed again; again: pushed again. ongoing: control's transaction;
    marker: being sent; others_marker: not sent yet. refused: batches."""

    to_send: tuple[int, ...] = tuple(range(1, BATCHES + 1))
    ring: tuple[Batch, ...] = ()
    log: tuple[int, ...] = ()
    open_in_log: bool = False
    last_end: int = 0
    others_end: int = 0
    answers: tuple[Batch, ...] = ()
    waiting: tuple[Batch, ...] = ()
    requested: tuple[Batch, ...] = ()
    allowed: tuple[Batch, ...] = ()
    again: tuple[int, ...] = ()
    ongoing: bool = True
    marker: bool = False
    others_marker: bool = True
    refused: tuple[int, ...] = ()


@dataclass(frozen=True)
class ConsentModel:
    """Each flag adds a bug. any_end: the end of any producer's transaction makes a consent stale
    (an earlier bug). never_stale: a consent is valid forever. not_asked: the worker appends the
    first batch of a transaction without consent. released_early: the connection continues when a
    batch is pushed again (an earlier bug), instead of when it is answered.
    """

    any_end: bool = False
    never_stale: bool = False
    not_asked: bool = False
    released_early: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[ConsentState], bool]]:
        return {
            "no batch is overtaken by a later one of its producer": _in_order,
            "a transaction that is open in the log has an end to come": lambda s: (
                not s.open_in_log or s.ongoing or s.marker
            ),
        }

    def starts(self) -> Iterator[ConsentState]:
        yield ConsentState()

    def is_end(self, s: ConsentState) -> bool:
        busy = s.to_send or s.ring or s.answers or s.waiting or s.requested or s.allowed or s.again
        return not busy and not s.marker and not s.ongoing and not s.open_in_log

    def steps(self, s: ConsentState) -> Iterator[tuple[str, ConsentState]]:
        yield from self._network(s)
        yield from self._control(s)
        if s.ring:
            yield from self._drain(s)
        if s.marker:  # of control's own ring
            yield (
                "the marker is in the log: end_transaction",
                s._replace(marker=False, log=(*s.log, MARKER), open_in_log=False, last_end=s.last_end + 1),
            )
        if s.others_marker:
            yield (
                "a marker of another producer is in the log",
                s._replace(others_marker=False, log=(*s.log, OTHERS_MARKER), others_end=s.others_end + 1),
            )

    # --- network process ---------------------------------------------------------------------------------

    def _network(self, s: ConsentState) -> Iterator[tuple[str, ConsentState]]:
        held = (
            s.waiting or s.requested or s.allowed or s.again
        )  # Flag.VERIFYING: its connection accepts no further request
        if s.to_send and not held:
            number = s.to_send[0]
            yield f"batch {number}: pushed", s._replace(to_send=s.to_send[1:], ring=(*s.ring, Batch(number)))
        if s.answers and s.answers[0].verified_at == APPENDED:
            number = s.answers[0].number
            yield (
                f"batch {number}: answered",
                s._replace(answers=s.answers[1:], again=tuple(each for each in s.again if each != number)),
            )
        elif s.answers:
            batch = s.answers[0]
            yield (
                f"batch {batch.number}: UNVERIFIED, TransactionChecks.take",
                s._replace(
                    answers=s.answers[1:],
                    waiting=(*s.waiting, batch),
                    again=tuple(each for each in s.again if each != batch.number),
                ),
            )
        if s.waiting and not s.requested:
            yield "TransactionChecks: ask control", s._replace(requested=s.waiting, waiting=())
        if s.allowed:
            batch = s.allowed[0]
            yield (
                f"batch {batch.number}: push_allowed",
                s._replace(
                    allowed=s.allowed[1:],
                    ring=(*s.ring, batch),
                    again=s.again if self.released_early else (*s.again, batch.number),
                ),
            )

    # --- control -----------------------------------------------------------------------------------------

    def _control(self, s: ConsentState) -> Iterator[tuple[str, ConsentState]]:
        if s.requested:
            numbers = [batch.number for batch in s.requested]
            if s.ongoing:
                yield (
                    f"control: verify_partitions, consent to {numbers}",
                    s._replace(requested=(), allowed=(*s.allowed, *s.requested)),
                )
            else:
                yield (
                    f"control: verify_partitions, {numbers} refused",
                    s._replace(requested=(), refused=(*s.refused, *numbers)),
                )
        if s.ongoing:
            yield "control: the transaction ends, its marker is sent", s._replace(ongoing=False, marker=True)

    # --- IO worker ---------------------------------------------------------------------------------------

    def _drain(self, s: ConsentState) -> Iterator[tuple[str, ConsentState]]:
        batch, s = s.ring[0], s._replace(ring=s.ring[1:])
        begins = not s.open_in_log
        end = s.last_end + s.others_end if self.any_end else s.last_end
        consent = batch.verified_at != NOT_VERIFIED and (self.never_stale or batch.verified_at == end)
        if begins and not consent and not self.not_asked:
            answer = Batch(batch.number, end)
            yield (
                f"batch {batch.number}: check_producer, UNVERIFIED",
                s._replace(answers=(*s.answers, answer)),
            )
        else:
            yield (
                f"batch {batch.number}: appended",
                s._replace(
                    log=(*s.log, batch.number),
                    open_in_log=True,
                    answers=(*s.answers, Batch(batch.number, APPENDED)),
                ),
            )


def _in_order(s: ConsentState) -> bool:
    """All batches before it are in the log, except those that control has refused."""
    batches = [number for number in s.log if number > 0]
    expected = [number for number in range(1, max(batches, default=0) + 1) if number not in s.refused]
    return [number for number in batches if number in expected] == expected
