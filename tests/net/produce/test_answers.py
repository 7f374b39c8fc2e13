"""Answers to Produce that Python sends."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.net.connections.connection import Connection, State
from kbroker.net.produce import answers as module
from kbroker.net.produce.answers import LONG_BYTES, ProduceAnswers
from kbroker.net.rows import AnswerBy, Request

ROW, NUMBER = 1, 2


def test_a_request_whose_answer_is_built_in_slices_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile its connection may resume, when a batch of its next request has been checked."""
    popped: list[int] = []
    works: list[Callable[[], None]] = []
    sent: list[Any] = []
    monkeypatch.setattr(module, "pop_answered", lambda _, row: popped.append(row))
    nothing: Any = None
    connection = Connection(nothing, -1, ROW, nothing)
    requests = Request.table(NUMBER + 1)
    requests[NUMBER, [Request.BOUND, Request.ANSWER, Request.ACKS]] = LONG_BYTES + 1, AnswerBy.PYTHON, 1
    process: Any = SimpleNamespace(
        tables=SimpleNamespace(requests=requests, address=0),
        connections={ROW: connection},
        answers=SimpleNamespace(send_produced=lambda *answer: sent.append(answer)),
        checks=SimpleNamespace(refusals=SimpleNamespace(answer=lambda *_: b"answer")),
        counts=SimpleNamespace(slow=SimpleNamespace(on=False), produced=lambda _: None),
        quotas=SimpleNamespace(active=False),
        server=SimpleNamespace(in_slices=lambda _, work: works.append(work)),
    )
    answers = ProduceAnswers(process)
    for _ in range(2):
        answers.on_answer(ROW, NUMBER)
    assert len(works) == 1
    works.pop()()
    assert (popped, sent) == ([ROW], [(connection, [b"answer"])])
    answers.on_answer(ROW, NUMBER)  # of the next request
    assert len(works) == 1
    connection.state = State.CLOSED
    works.pop()()
    assert (len(popped), len(sent)) == (1, 1)
    answers.on_answer(ROW, NUMBER)
    assert len(works) == 1, "a closed connection leaves nothing"
