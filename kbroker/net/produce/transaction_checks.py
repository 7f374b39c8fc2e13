"""Transactional batches that would begin their producer's transaction on a partition: control
verifies the transaction, then they are appended again (KIP-890).

Runs in: network. Owner: the process. The IO worker answered them UNVERIFIED. The kernel holds their
connection until they are answered, so that a later batch of the same producer cannot overtake them.
Nor can it overtake a batch that was pushed right after them and is still in the ring: the IO worker
might answer that batch UNVERIFIED, and then append the later one to an open transaction.
"""

import asyncio
import logging
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple

from msgspec import Struct, field

from kbroker.ipc.layout import Operation
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import PRODUCE_ADDS_FROM, VerifyTransaction
from kbroker.net.network_tables import NetworkTables
from kbroker.net.produce.admit_kernel import push_checked
from kbroker.net.pump_kernel import wake_workers
from kbroker.net.rows import Connection, ProduceVersion, Request, Result, ResultState
from kbroker.net.topics import Topics
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import parse_request
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

MAX_TRIES = 10  # each retry means that a marker was written in between
HEAD_BYTES = 1 << 17  # of a request: more than its header and transactional id can take
BASE_OFFSET = struct.Struct(">q")
PRODUCER = struct.Struct(">qh")
SEQUENCE = struct.Struct(">i")
LENGTH = struct.Struct(">h")
CONTROL_RETRY_S = 0.05
CONTROL_TRIES = 200  # clients do not notice a restart of control
RETRY_S = 60  # in which a producer has sent a refused batch again, or has given it up
MAX_REFUSED = 1024

Answer = tuple[int, str | None]
Sender = tuple[int, int, int, int]
"""Connection row, its generation, slot and producer id."""
Ask = Callable[[VerifyTransaction], Awaitable[tuple[Answer, ...]]]


class Claim(NamedTuple):
    """The producer of a transactional batch, and the version of its Produce request."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    version: int


class HeldBatch(NamedTuple):
    """A batch that waits for its transaction's check. holder: connection row and its generation;
    verified_at: value that the IO worker expects in the repeated entry."""

    result: int
    holder: tuple[int, int]
    partition: tuple[str, int]
    verified_at: int


class Verification(Struct):
    """Batches of one claim: those that control verifies now, and later ones."""

    current: list[HeldBatch] = field(default_factory=list)
    later: list[HeldBatch] = field(default_factory=list)


class LowestSequences:
    """The lowest sequences of refused batches that their producers send again.

    Until then later batches of the connection are refused, too: a partition takes any first
    sequence of a producer that it does not know, and would refuse the earlier batch for good
    (Kafka's VerificationStateEntry.lowestSequence). An entry counts for RETRY_S, since markers,
    which end it in Kafka, are not seen here. Runs in: network. Owner: TransactionChecks."""

    def __init__(self) -> None:
        self._lowest: dict[Sender, tuple[int, int, float]] = {}
        """Epoch, sequence, and the end of RETRY_S."""

    def refused(self, sender: Sender, epoch: int, sequence: int, now_s: float) -> None:
        """A batch is refused with an error after which it is sent again."""
        known_epoch, lowest, until_s = self._lowest.pop(sender, (epoch, sequence, now_s))
        if known_epoch == epoch and now_s < until_s:
            sequence = min(sequence, lowest)
        self._lowest[sender] = epoch, sequence, now_s + RETRY_S
        if len(self._lowest) > MAX_REFUSED:
            del self._lowest[next(iter(self._lowest))]

    def may_append(self, sender: Sender, epoch: int, sequence: int, now_s: float) -> bool:
        """Whether no earlier batch is expected. Then none is from now on."""
        known = self._lowest.get(sender)
        if known is not None and known[0] == epoch and sequence > known[1] and now_s < known[2]:
            return False
        self._lowest.pop(sender, None)
        return True


class TransactionChecks:
    """ask: calls control; raises LinkClosed while there is no link. refuse(result, code, text):
    answers a batch with an error. on_released(row): the connection may continue to read."""

    def __init__(
        self,
        tables: NetworkTables,
        topics: Topics,
        refuse: Callable[[int, int, str | None], None],
        on_released: Callable[[int], None],
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._refuse_batch = refuse
        self._on_released = on_released
        self._verifications: dict[Claim, Verification] = {}
        self._lowest = LowestSequences()
        self.held: dict[tuple[int, int], int] = {}
        """Batches that are not answered, by holder."""
        self._allowed: list[HeldBatch] = []  # to be pushed, in order
        self._pushed: list[tuple[HeldBatch, int]] = []  # and the Result.NUMBER of each
        self._tasks: set[asyncio.Task[None]] = set()
        self.ask: Ask

    @property
    def waiting(self) -> bool:
        """Whether something waits for room in a ring, or for its completion."""
        return bool(self._allowed or self._pushed)

    def take(self, row: int, result: int, verified_at: int) -> None:
        """An IO worker requires control's consent for a batch. row: its connection, -1 when that is
        closed."""
        words = self._tables.results[result]
        holder = (row, int(self._tables.connections[row, Connection.GENERATION]) if row >= 0 else 0)
        self.held[holder] = self.held.get(holder, 0) + 1
        known = self._topics.by_slot.get(int(words[Result.SLOT]))
        words[Result.TRIES] += 1
        if known is None or words[Result.TRIES] > MAX_TRIES:
            code = ErrorCode.NOT_ENOUGH_REPLICAS if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._refuse(HeldBatch(result, holder, ("", -1), verified_at), (int(code), None))
            return
        held = HeldBatch(result, holder, (known[0].name, known[1].index), verified_at)
        try:
            claim = self._claim(result)
        except ProtocolError:  # a client id that is not UTF-8: the kernel does not read it
            self._refuse(held, (int(ErrorCode.INVALID_REQUEST), None))
            return
        verification = self._verifications.get(claim)
        if verification is None:
            verification = self._verifications[claim] = Verification()
            self._start(self._settle(claim, verification))
        verification.later.append(held)

    def consent(self, result: int, then: Callable[[int, str | None], None]) -> None:
        """Ask about a batch that is refused: its partition joins nevertheless, as in Kafka."""
        known = self._topics.by_slot.get(int(self._tables.results[result, Result.SLOT]))
        try:
            claim = self._claim(result)
        except ProtocolError:
            then(int(ErrorCode.INVALID_REQUEST), None)
            return
        if known is None:
            then(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), None)
            return
        partitions = ((known[0].name, known[1].index),)
        message = VerifyTransaction(*claim[:3], partitions, claim.version)
        self._start(self._consent(message, then))

    async def _consent(self, message: VerifyTransaction, then: Callable[[int, str | None], None]) -> None:
        (answer,) = await self._ask(message)
        then(*answer)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _claim(self, result: int) -> Claim:
        words = self._tables.results[result].tolist()
        request = self._tables.requests[words[Result.REQUEST]].tolist()
        arena = self._tables.arena_bytes
        start, size = request[Request.FRAME], request[Request.FRAME_BYTES]
        head = bytes(arena[start : start + min(size, HEAD_BYTES)])
        header, body = parse_request(head)
        batch = words[Result.ADDRESS]
        producer_id, epoch = PRODUCER.unpack(
            bytes(arena[batch + rb.PRODUCER_ID : batch + rb.PRODUCER_ID + PRODUCER.size])
        )
        version = header.api_version
        return Claim(
            _transactional_id(head, body, version >= ProduceVersion.FLEXIBLE), producer_id, epoch, version
        )

    async def _settle(self, claim: Claim, verification: Verification) -> None:
        """Ask control until no batch of this claim is left."""
        while verification.later:
            verification.current, verification.later = verification.later, []
            partitions = tuple(dict.fromkeys(held.partition for held in verification.current))
            message = VerifyTransaction(*claim[:3], partitions, claim.version)
            answers = dict(zip(partitions, await self._ask(message), strict=True))
            for held in verification.current:
                answer = self._in_order(claim, held, answers[held.partition])
                if answer[0]:
                    self._refuse(held, answer)
                else:
                    self._allow(held, claim.version)
            self.push_allowed()
        del self._verifications[claim]

    def _in_order(self, claim: Claim, held: HeldBatch, answer: Answer) -> Answer:
        """Control's answer to a batch, or that an earlier one is expected. With transactions v2 the
        IO worker finds that: there a producer that it does not know begins with 0."""
        if claim.version >= PRODUCE_ADDS_FROM or answer[0] not in (0, ErrorCode.NOT_ENOUGH_REPLICAS):
            return answer
        words = self._tables.results[held.result]
        start = int(words[Result.ADDRESS]) + rb.BASE_SEQUENCE
        (sequence,) = SEQUENCE.unpack(bytes(self._tables.arena_bytes[start : start + SEQUENCE.size]))
        sender = (*held.holder, int(words[Result.SLOT]), claim.producer_id)
        now_s = time.monotonic()
        if answer[0]:
            self._lowest.refused(sender, claim.producer_epoch, sequence, now_s)
        elif not self._lowest.may_append(sender, claim.producer_epoch, sequence, now_s):
            return int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None
        return answer

    async def _ask(self, message: VerifyTransaction) -> tuple[Answer, ...]:
        for _ in range(CONTROL_TRIES):
            try:
                return await self.ask(message)
            except LinkClosed:
                await asyncio.sleep(CONTROL_RETRY_S)
            except KafkaError as error:
                log.error("control could not verify a transaction: %s", error)
                break
        return ((int(ErrorCode.NOT_ENOUGH_REPLICAS), None),) * len(message.partitions)

    def _allow(self, held: HeldBatch, version: int) -> None:
        words = self._tables.results[held.result]
        adds = version >= PRODUCE_ADDS_FROM
        words[Result.OPERATION] = Operation.APPEND_ADDED if adds else Operation.APPEND_VERIFIED
        start = int(words[Result.ADDRESS]) + rb.BASE_OFFSET
        self._tables.arena_bytes[start : start + BASE_OFFSET.size] = BASE_OFFSET.pack(held.verified_at)
        self._allowed.append(held)

    def push_allowed(self) -> None:
        """Push what has room now, in order; release what was pushed and is answered."""
        results = self._tables.results
        pushed, self._pushed = self._pushed, []
        for held, number in pushed:
            row = results[held.result]
            if row[Result.STATE] == ResultState.WAITING and row[Result.NUMBER] == number:
                self._pushed.append((held, number))
            else:
                self._release(held)
        while self._allowed and push_checked(self._tables.address, self._allowed[0].result):
            held = self._allowed.pop(0)
            self._pushed.append((held, int(results[held.result, Result.NUMBER])))
        wake_workers(self._tables.address)

    def _refuse(self, held: HeldBatch, answer: Answer) -> None:
        self._refuse_batch(held.result, *answer)
        self._release(held)

    def _release(self, held: HeldBatch) -> None:
        self.held[held.holder] -= 1
        if self.held[held.holder]:
            return
        del self.held[held.holder]
        row, generation = held.holder
        if row >= 0 and self._tables.connections[row, Connection.GENERATION] == generation:
            self._on_released(row)


def _transactional_id(head: bytes, position: int, compact: bool) -> str | None:
    """The first field of a Produce body, which the kernel has scanned."""
    if not compact:
        (length,) = LENGTH.unpack_from(head, position)
        position += LENGTH.size
    else:
        length, shift = 0, 0
        while True:
            byte = head[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        length -= 1
    return None if length < 0 else head[position : position + length].decode(errors="replace")
