"""A real group coordinator with its commit cache, whose steps become traces of the model.

The runtime, the cache, the group machine and the order of appends are real; the IO worker behind
them takes or refuses each append when the test says so.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from kbroker.control.coordinator.machine import Deferred, Outcome
from kbroker.control.groups.group_replay import OFFSET_TYPES
from kbroker.control.links.append_queue import Append, AppendQueue, Ended
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.block import answers, client_request, requests
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.record_types import record_type
from kbroker.protocol.records import read_all
from tests.api.in_process import dispatch_of
from tests.control.fakes import world
from tests.control.groups.commit_scene import MEMBER, PEER, Done, Log, Scene, commit
from tests.ipc.request_block import pack_request
from tests.models.commit_cache import BEFORE, COMMITS, DELETE, LEAVE, CacheState, label
from tests.models.paths import Seen, Trace

SUBSCRIPTION = b"\0\0\0\0\0\1\0\1b\xff\xff\xff\xff"
"""To topic "b", version 0: offsets of topic "a" may be deleted."""
SETTLED = 30
"""Turns of the loop after which nothing happens by itself."""
HEAD_BYTES = 9
NOBODY = -2
REQUEST: ContextVar[int] = ContextVar("request", default=BEFORE)
"""The operation on whose behalf the runtime runs."""


def shows(state: CacheState) -> object:
    """What `RealCommits` sees of a state of the model."""
    log = tuple(each.number for each in state.log)
    return state.passed >= 0, state.offset, log, state.acknowledged


class HeldLog(Log):
    """Stands for the Appender and for an IO worker, with a real AppendQueue. waiting: the pushed
    appends, the oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted: Callable[[list[int]], None] = lambda _: None
        self.ended: Callable[[list[int], int], None] = lambda _, __: None
        self.queue: AppendQueue | None = None
        self.waiting: deque[tuple[Append, list[int]]] = deque()
        self._numbers: dict[int, list[int]] = {}
        self.open_appends = 0

    def submit(self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = 0) -> None:
        self.timeout_ms = timeout_ms
        numbers = [_number(record.key or b"", record.value) for record in read_all(batch)]
        self.submitted(numbers)
        self.queue = self.queue or AppendQueue(partition)
        append = Append(batch, 0, partial(self._settled, numbers, done))
        self._numbers[id(append)] = numbers
        self.open_appends += 1
        self.queue.add(append)
        self._push()

    def _push(self) -> None:
        assert self.queue is not None
        while (append := self.queue.next()) is not None:
            self.queue.pushed()
            self.waiting.append((append, self._numbers[id(append)]))

    def answer(self, error: int = 0) -> None:
        """The IO worker takes the oldest append, or refuses it."""
        assert self.queue is not None
        append, _ = self.waiting.popleft()
        self._end(self.queue.ended(append, error, 0))

    def retry(self, expired: bool) -> None:
        """Push refused appends again, unless their time is up."""
        assert self.queue is not None
        self._end(self.queue.resume(0 if expired else -1))

    def _end(self, ended: Iterable[Ended]) -> None:
        for each in ended:
            self.open_appends -= 1
            del self._numbers[id(each.append)]
            each.append.settled(each.error, each.base_offset)
        self._push()

    def _settled(self, numbers: list[int], done: Done, error: int, _: int) -> None:
        self.ended(numbers, error)
        done(KafkaError(ErrorCode(error)) if error else None)


def _number(key: bytes, value: bytes | None) -> int:
    """The operation that wrote a record: a commit commits its number."""
    if record_type(key) not in OFFSET_TYPES:
        return LEAVE
    return DELETE if value is None else int.from_bytes(value[2:10])


class RealCommits:
    """Runs of one coordinator; each has a new group. trace: of the run so far."""

    def __init__(self, scene: Scene, log: HeldLog) -> None:
        self.scene, self.log = scene, log
        self.trace: list[str | Seen] = []
        self._by_call: dict[int, int] = {}
        self._begin("")
        log.submitted, log.ended = self._submitted, self._ended
        vars(scene.link)["answer"] = self._cache_answers
        vars(scene.runtime)["_leave_fast_path"] = partial(self._leaving, scene.runtime._leave_fast_path)
        shard = scene.shard
        vars(shard)["commit_offsets"] = partial(self._commit_decided, shard.commit_offsets)
        vars(shard)["delete_offsets"] = partial(self._decided, DELETE, shard.delete_offsets)
        vars(shard)["leave"] = partial(self._decided, LEAVE, shard.leave)

    def _begin(self, group: str) -> None:
        self.group, self.trace = group, []
        self.log_numbers: list[int] = []
        self.acknowledged: set[int] = set()
        self.commits, self.others, self.refused, self._failed = 0, [LEAVE, DELETE], False, False
        self._dispatching, self._outcome, self._taking = NOBODY, "", False
        self.log.queue = None

    async def run(self, seed: int) -> Trace:
        """One run in random order. Nothing but the seed decides it."""
        self._begin(f"group-{seed}")
        self.scene.add_group(self.group, SUBSCRIPTION)
        self._commit(BEFORE)
        await self._rest(SETTLED)
        self.log.answer()
        await self._rest(SETTLED)
        self.acknowledged.clear()
        self.trace, chance = [], random.Random(seed)
        while steps := self._steps():
            chance.choice(steps)()
            turns = chance.choice((0, 0, 1, 2, 3, SETTLED))
            await self._rest(turns)
            if turns == SETTLED or not self._steps():
                await self._rest(SETTLED)
                self.trace.append(self._seen())
        return self.trace

    async def _rest(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    def _seen(self) -> Seen:
        passed = self.group in self.scene.service.commit_cache._decisions._of_group
        offset = self.scene.committed("a", 0, self.group) or 0
        return Seen((passed, offset, tuple(self.log_numbers), tuple(sorted(self.acknowledged))))

    def _steps(self) -> list[Callable[[], None]]:
        """What may happen next."""
        steps: list[Callable[[], None]] = []
        if self.commits < COMMITS:
            steps += [self._next_commit] * 2
        steps += [partial(self._other, number) for number in self.others]
        log = self.log
        if log.waiting:
            steps += [log.answer] * 2
            numbers = log.waiting[0][1]
            if not self.refused and len(numbers) == 1 and numbers[0] != LEAVE:
                steps.append(self._refuse)
        elif log.queue is not None and log.queue.paused:
            steps.append(partial(log.retry, False))
            if log.open_appends == 1 and not self._failed:
                steps.append(partial(log.retry, True))
        return steps

    # --- requests -----------------------------------------------------------------------------------

    def _next_commit(self) -> None:
        self.commits += 1
        self._commit(self.commits)

    def _commit(self, number: int) -> None:
        frame = commit(9, {"a": [(0, number, "")]}, {}, self.group)
        self.scene.calls += 1
        call = ~self.scene.calls
        self._by_call[call] = number
        block = bytearray(pack_request(call, PEER, frame[4:]))
        self._taking = True
        self.scene.service.commit_cache.take(self.scene.link, block)
        self._taking = False
        left = list(requests(block))
        if not left:
            self.trace.append(f"commit {number}: CommitCache.take")
            return
        self._dispatch(number, left[0][2])
        passed = self.group in self.scene.service.commit_cache._decisions._of_group
        decided = "learned" if passed else "no row yet"
        self.trace.append(f"commit {number}: Runtime.ask_concurrently, {self._outcome or decided}")

    def _other(self, number: int) -> None:
        self.others.remove(number)
        if number == LEAVE:
            leave = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(MEMBER)])
            frame = encode_request(ApiKey.LEAVE_GROUP, 5, 7, "client", leave)
        else:
            topics = [OffsetDeleteRequestTopic("a", [OffsetDeleteRequestPartition(0)])]
            frame = encode_request(
                ApiKey.OFFSET_DELETE, 0, 7, "client", OffsetDeleteRequest(self.group, topics)
            )
        self._dispatch(number, frame[4:])

    def _dispatch(self, number: int, frame: bytes) -> None:
        """Ask as control does. A commit's outcome is kept; later ones become steps of the trace."""
        self._dispatching, self._outcome = number, "later"
        before = REQUEST.set(number)
        found = dispatch_of(self.scene.broker)(client_request(PEER, frame))
        REQUEST.reset(before)
        self._dispatching = NOBODY
        if isinstance(found, Deferred):
            found.on_complete(partial(self._answered, number))
        else:
            self._answered(number, found)

    def _refuse(self) -> None:
        self.refused = True
        self.log.answer(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    # --- steps of the code --------------------------------------------------------------------------

    def _answered(self, number: int, answer: Any) -> None:
        if number in (LEAVE, DELETE) or not isinstance(answer, bytes):
            return
        found, _ = decode(OffsetCommitResponse, 9, answer, HEAD_BYTES)
        if not found.topics[0].partitions[0].error_code:
            self.acknowledged.add(number)

    def _cache_answers(self, messages: bytes) -> None:
        for call, _, frame in answers(bytearray(messages)):
            self._answered(self._by_call[call], bytes(frame))

    def _leaving(self, own: Callable[[str], None], key: str) -> None:
        self.trace.append(f"{label(REQUEST.get())}: Runtime._leave_fast_path, in turn")
        own(key)

    def _commit_decided(
        self, own: Callable[..., Outcome], request: OffsetCommitRequest, version: int, now_ms: int
    ) -> Outcome:
        number = request.topics[0].partitions[0].committed_offset
        outcome, refusal = None, "refused: the generation has ended"
        try:
            outcome = own(request, version, now_ms)
        finally:
            if self._dispatching == number:
                self._outcome = refusal if outcome is None else ""
            else:
                how = "the machine decides" if outcome is not None else "refused, the generation has ended"
                self.trace.append(f"commit {number}: {how}")
        return outcome

    def _decided(self, number: int, own: Callable[..., Outcome], *arguments: Any) -> Outcome:
        outcome = own(*arguments)
        nothing = "" if outcome.records else ", nothing to delete"
        self.trace.append(f"{label(number)}: the machine decides{nothing}")
        return outcome

    def _submitted(self, numbers: list[int]) -> None:
        if not self._taking:
            self.trace += [f"{label(number)}: Gathering, submitted" for number in numbers]

    def _ended(self, numbers: list[int], error: int) -> None:
        for number in numbers:
            if error:
                self._failed = True
                self.trace.append(f"{label(number)}: AppendQueue, {ErrorCode(error).name}")
                continue
            self.log_numbers.append(number)
            done = "replayed" if number in (LEAVE, DELETE) else "answered"
            self.trace.append(f"{label(number)}: in the log, {done}")


def runs(folder: Path, seeds: Iterable[int]) -> dict[int, Trace]:
    """The trace of each seed."""
    found: dict[int, Trace] = {}

    async def play(scene: Scene, log: HeldLog) -> None:
        await scene.begin()
        real = RealCommits(scene, log)
        for seed in seeds:
            found[seed] = await real.run(seed)
        scene.runtime.close()

    with world(folder) as made:

        async def body() -> None:
            log = HeldLog()
            await play(Scene(made, log), log)

        asyncio.run(body())
    return found
