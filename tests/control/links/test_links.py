"""Links to the other processes: who dies is not waited for, who restarts is called again."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kbroker.control.links import links as module
from kbroker.control.links.links import Links, bounded
from kbroker.ipc.link import Answered, LinkClosed
from kbroker.ipc.messages import ClosePartition, Image, Reply
from kbroker.protocol.errors import ErrorCode, KafkaError

IMAGE = Image(1, False, ())
CALL = ClosePartition(1)


class Link:
    """A link whose answers are given by the test: a value, an exception, or never."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[Any] = []
        self.closed = False

    def call(self, body: Any) -> Awaitable[Any]:
        self.calls.append(body)
        future = asyncio.get_running_loop().create_future()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)
        return future

    def ask(self, body: Any, answered: Answered) -> None:
        """Answered at once; None is a link that has died."""
        self.calls.append(body)
        answered(self.answers.pop(0))

    def close(self) -> None:
        self.closed = True


def test_an_image_is_announced_when_everyone_has_confirmed_or_died() -> None:
    async def test() -> None:
        links = Links()
        alive, dying = Link("ok"), Link(LinkClosed("gone"))
        links.add_network(0, alive)
        links.add_network(1, dying)
        await links.announce(IMAGE)
        assert alive.calls == dying.calls == [IMAGE]

    asyncio.run(test())


def test_a_network_process_that_hangs_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_TIMEOUT_S", 0.01)

    async def test() -> None:
        links = Links()
        hanging = Link(None)
        links.add_network(0, hanging)
        await links.announce(IMAGE)
        assert hanging.closed

    asyncio.run(test())


def test_a_call_is_made_again_with_the_successor_of_a_worker_that_died() -> None:
    async def test() -> None:
        links = Links()
        first, second = Link(LinkClosed("gone")), Link("done")
        links.add_worker(0, first)
        calling = asyncio.ensure_future(links.call_worker(0, CALL))
        await asyncio.sleep(0)
        links.add_worker(1, Link())
        await asyncio.sleep(0)
        assert not calling.done()
        links.add_worker(0, second)
        assert await calling == "done"
        assert first.calls == second.calls == [CALL]

    asyncio.run(test())


def test_a_successor_is_sent_what_is_right_then() -> None:
    async def test() -> None:
        links = Links()
        first, second = Link(LinkClosed("gone")), Link("done")
        links.add_worker(0, first)
        slots = iter((1, 2))
        calling = asyncio.ensure_future(links.call_with(0, lambda: ClosePartition(next(slots))))
        await asyncio.sleep(0)
        links.add_worker(0, second)
        assert await calling == "done"
        assert (first.calls, second.calls) == ([ClosePartition(1)], [ClosePartition(2)])

    asyncio.run(test())


def test_a_worker_that_does_not_come_back_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_TIMEOUT_S", 0.01)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(Links().call_worker(0, CALL))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_an_error_reply_is_raised_and_not_repeated() -> None:
    async def test() -> None:
        links = Links()
        link = Link(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE))
        links.add_worker(0, link)
        with pytest.raises(KafkaError):
            await links.call_worker(0, CALL)
        assert link.calls == [CALL]

    asyncio.run(test())


def test_a_worker_is_called_without_a_task_and_its_error_is_returned() -> None:
    async def test() -> None:
        reported: list[Any] = []
        links = Links()
        link = Link(Reply(1, "done"), Reply(2, None, int(ErrorCode.OFFSET_OUT_OF_RANGE), "why"))
        links.add_worker(0, link)
        links.ask_worker(0, CALL, reported.append)
        links.ask_worker(0, CALL, reported.append)
        assert reported[0] == "done"
        assert (reported[1].code, reported[1].message) == (ErrorCode.OFFSET_OUT_OF_RANGE, "why")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(test())


def test_a_request_to_a_worker_that_died_goes_to_its_successor() -> None:
    async def test() -> None:
        reported: list[Any] = []
        links = Links()
        links.add_worker(0, Link(None))
        links.ask_worker(0, CALL, reported.append)
        links.ask_worker(0, CALL, reported.append)  # there is none by now
        await asyncio.sleep(0)
        assert not reported
        links.add_worker(0, Link("one", "two"))
        async with asyncio.timeout(60):
            while len(reported) < 2:
                await asyncio.sleep(0.001)
        assert sorted(reported) == ["one", "two"]

    asyncio.run(test())


def test_a_called_worker_that_does_not_return_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_TIMEOUT_S", 0.01)

    async def test() -> None:
        reported: list[Any] = []
        Links().ask_worker(0, CALL, reported.append)
        async with asyncio.timeout(60):
            while not reported:
                await asyncio.sleep(0.001)
        assert [error.code for error in reported] == [ErrorCode.REQUEST_TIMED_OUT]

    asyncio.run(test())


def test_a_lost_link_does_not_take_its_successor_along() -> None:
    links = Links()
    old, new = Link(), Link()
    links.add_network(0, old)
    links.add_network(0, new)
    links.lost(old)
    assert links.networks == {0: new}


def test_no_more_calls_than_the_limit_run_at_once_and_errors_keep_their_place() -> None:
    running = most = 0

    async def call(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if number == 3:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return number

    calls = [lambda number=number: call(number) for number in range(10)]
    results = asyncio.run(bounded(4, calls))
    assert most == 4
    assert isinstance(results[3], KafkaError)
    assert results[:3] + results[4:] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_call_that_is_not_waited_for_any_longer_has_been_sent() -> None:
    async def test() -> None:
        links, hanging = Links(), Link(None, None)
        links.add_worker(0, hanging)
        for answer_s in (0.001, -1.0):
            with pytest.raises(KafkaError) as refused:
                await links.call_worker(0, CALL, answer_s)
            assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert hanging.calls == [CALL, CALL]

    asyncio.run(test())


class Observer(Link):
    """A link that is only sent messages."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []

    def send(self, body: Any) -> None:
        self.sent.append(body)


def test_an_observer_is_sent_images_until_its_link_ends() -> None:
    async def test() -> None:
        links, observer = Links(), Observer()
        links.observers.add(observer)
        await links.announce(IMAGE)
        assert observer.sent == [IMAGE]
        links.lost(observer)
        await links.announce(IMAGE)
        assert (observer.sent, observer.calls) == ([IMAGE], [])

    asyncio.run(test())


def test_a_worker_that_is_lost_is_not_ready() -> None:
    links, (one, other) = Links(), (Link(), Link())
    links.add_worker(0, one)
    links.add_worker(1, other)
    links.lost(one)
    assert (links.worker(0), links.worker(1)) == (None, other)
