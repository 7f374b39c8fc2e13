"""A coordinator that is moving is asked again; any other answer is final."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kbroker.cli import coordinators
from kbroker.cli.coordinators import coordinator_answer, coordinator_result
from kbroker.cli.failures import CommandFailed


class Answers:
    """Futures of a scripted admin client: error codes first, then "done" forever."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)
        self.calls = 0

    def __call__(self) -> "Future[Any]":
        self.calls += 1
        future: Future[Any] = Future()
        if self._codes:
            future.set_exception(KafkaException(KafkaError(self._codes.pop(0))))
        else:
            future.set_result("done")
        return future


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "RETRY_S", 0.0)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_request_to_a_moving_coordinator_is_retried(code: int) -> None:
    answers = Answers(code, code)
    assert coordinator_result(answers, "group g", 10.0) == "done"
    assert answers.calls == 3


def test_another_error_ends_the_command_at_once() -> None:
    answers = Answers(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(CommandFailed, match="group g: GROUP_AUTHORIZATION_FAILED"):
        coordinator_result(answers, "group g", 10.0)
    assert answers.calls == 1


def test_a_coordinator_that_never_settles_ends_the_command_in_time() -> None:
    with pytest.raises(CommandFailed, match="group g: NOT_COORDINATOR"):
        coordinator_result(Answers(*[KafkaError.NOT_COORDINATOR] * 9), "group g", -1.0)


def test_an_error_of_kafka_python_is_answered_again_too() -> None:
    from kafka.errors import CoordinatorNotAvailableError

    raised: list[Exception] = [CoordinatorNotAvailableError()]

    def ask() -> str:
        if raised:
            raise raised.pop()
        return "done"

    assert coordinator_answer(ask, "payments", 5) == "done"
