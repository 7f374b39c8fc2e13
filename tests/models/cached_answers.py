"""Answers that network processes repeat (kbroker/ipc/cached_answers.py,
net/local_answers/cached_answer_kernel.py).

Control holds a state and a version word; `AnswerVersions` raises the word in the step of the loop
that changes the state. Two network processes keep answers. A client changes the state by one of
them; a client that has seen that answered, and then asks, by any network process, must not get an
older state.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

CHANGES = 2
ASKS = 3
PROCESSES = 2


class Kept(NamedTuple):
    """A cached answer. state: that it shows; version: of its terms."""

    state: int
    version: int


class Ask(NamedTuple):
    """A client's question to a network process. least: the state that the client knows to have been
    reached. stage: where the question is."""

    process: int
    least: int
    stage: str = "sent"
    answer: Kept | None = None


class AnswersState(NamedTuple):
    """state, word: of control. answered: the newest change that was answered. changing: steps of a
    change that are left. kept: of each network process. asks: in progress. broken: a client has got
    an older state than it knew of."""

    state: int = 0
    word: int = 0
    answered: int = 0
    changing: tuple[str, ...] = ()
    kept: tuple[Kept | None, ...] = (None,) * PROCESSES
    asks: tuple[Ask, ...] = ()
    requests: int = 0
    broken: bool = False


@dataclass(frozen=True)
class AnswersModel:
    """Each flag puts a bug in.

    raised_late: the word is raised after the change has been answered. terms_read_late: control
    reads the word in a later step than the state. not_compared: a kept answer is repeated without a
    look at the word.
    """

    raised_late: bool = False
    terms_read_late: bool = False
    not_compared: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[AnswersState], bool]]:
        return {"no client that knows of a change gets an older answer": lambda s: not s.broken}

    def starts(self) -> Iterator[AnswersState]:
        yield AnswersState()

    def is_end(self, s: AnswersState) -> bool:
        return s.requests == ASKS and not s.asks and s.answered == CHANGES

    def steps(self, s: AnswersState) -> Iterator[tuple[str, AnswersState]]:
        yield from self._change(s)
        if s.requests < ASKS:
            for process in range(PROCESSES):
                ask = Ask(process, s.answered)
                yield (
                    f"a client asks by network {process}",
                    s._replace(asks=(*s.asks, ask), requests=s.requests + 1),
                )
        for n, ask in enumerate(s.asks):
            rest = s._replace(asks=s.asks[:n] + s.asks[n + 1 :])
            for step, after, moved in self._continue(s, rest, ask):
                if moved is not None:
                    after = after._replace(asks=tuple(sorted((*after.asks, moved))))
                yield step, after

    def _change(self, s: AnswersState) -> Iterator[tuple[str, AnswersState]]:
        if not s.changing:
            if s.state < CHANGES:
                if self.raised_late:
                    yield (
                        "control: change the state",
                        s._replace(state=s.state + 1, changing=("answer", "raise")),
                    )
                else:
                    yield (
                        "control: change the state, topics_changed",
                        s._replace(state=s.state + 1, word=s.word + 1, changing=("answer",)),
                    )
        elif s.changing[0] == "answer":
            yield "the change is answered", s._replace(answered=s.state, changing=s.changing[1:])
        else:
            yield "control: topics_changed", s._replace(word=s.word + 1, changing=())

    def _continue(
        self, s: AnswersState, rest: AnswersState, ask: Ask
    ) -> Iterator[tuple[str, AnswersState, Ask | None]]:
        where, kept = f"network {ask.process}", s.kept[ask.process]
        if ask.stage == "sent":
            if kept is not None and (self.not_compared or kept.version == s.word):
                yield f"{where}: repeat", _answered(rest, ask, kept), None
            else:
                yield f"{where}: forward", rest, ask._replace(stage="forwarded")
        elif ask.stage == "forwarded":
            if self.terms_read_late:
                yield "control: build the answer", rest, ask._replace(stage="built", answer=Kept(s.state, -1))
            else:
                yield (
                    "control: AnswerVersions.answer",
                    rest,
                    ask._replace(stage="back", answer=Kept(s.state, s.word)),
                )
        elif ask.answer is None:
            return
        elif ask.stage == "built":
            yield (
                "control: add the terms",
                rest,
                ask._replace(stage="back", answer=ask.answer._replace(version=s.word)),
            )
        else:
            keeping = (*s.kept[: ask.process], ask.answer, *s.kept[ask.process + 1 :])
            kept_all = keeping if ask.answer.version == s.word else s.kept
            yield f"{where}: keep, answer", _answered(rest._replace(kept=kept_all), ask, ask.answer), None


def _answered(s: AnswersState, ask: Ask, answer: Kept) -> AnswersState:
    return s._replace(broken=s.broken or answer.state < ask.least)
