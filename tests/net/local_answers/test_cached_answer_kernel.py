"""Cached answers are repeated without control, exactly as long as control allows."""

import struct
from collections.abc import Callable, Sequence
from random import Random

from kbroker.config.client_quotas import CLIENT_ID, REQUEST_PERCENTAGE, QuotaTable
from kbroker.ipc.cached_answers import AnswerVersions, word_of
from kbroker.ipc.layout import AnswerVersion, Slot
from kbroker.ipc.messages import ClientRequest, Image
from kbroker.ipc.shared import Shared
from kbroker.metrics import layout as ml
from kbroker.net.rows import Answer, AnswerTable
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode
from tests.net.forward.forwarded import METADATA, asking, read

FIND_COORDINATOR = 10
CODES = 3


def caching_node(
    node_factory: NodeFactory,
    content: Callable[[ClientRequest], bytes],
    word: int = AnswerVersion.TOPICS,
    slots: Sequence[int] = (),
) -> NetNode:
    """Control answers each request by its content, for as long as the words say, and the slots of
    logs."""
    words: list[AnswerVersions] = []

    def answer(request: ClientRequest) -> bytes:
        answered = content(request)
        frame = struct.pack(">ii", 4 + len(answered), request.correlation_id) + answered
        logs = {slot: int(node.shared.slots[slot, Slot.SEQUENCE]) for slot in slots}
        return words[0].answer(frame, request.body, CODES, word, logs=logs)

    node: NetNode = node_factory({"t": 1}, answer=answer)
    words.append(AnswerVersions(node.shared.cached_answers))
    return node


def answered(link, request: bytes, size: int) -> tuple[int, bytes]:  # type: ignore[no-untyped-def]
    """(correlation id, content) of the answer."""
    link.sendall(request)
    frame = read(link, 8 + size)
    length, correlation_id = struct.unpack_from(">ii", frame)
    assert length == 4 + size
    return correlation_id, frame[8:]


def by_number(request: ClientRequest) -> bytes:
    return struct.pack(">i", request.correlation_id)


def test_control_is_called_once_and_every_request_is_counted(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, by_number)
    for link in (node.connect(), node.connect()):
        for number in range(10, 15):
            correlation_id, content = answered(link, asking(number, body=b"topic"), 4)
            assert (correlation_id, content) == (number, struct.pack(">i", 10))
    assert len(node.control.requests) == 1
    counted = node.shared.metrics[0]
    assert counted[ml.REQUESTS + METADATA * ml.VERSION_COUNT + 1] == 10
    assert counted[ml.RESPONSE_BYTES + METADATA] == 10 * 12
    assert counted[ml.REQUEST_BYTES + METADATA] == 10 * len(asking(1, body=b"topic"))
    assert counted[ml.ERRORS + METADATA * ml.ERROR_COUNT + 1] == 9 * CODES  # control has counted the first


def test_another_question_is_another_answer(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, by_number)
    link = node.connect()
    questions = [
        asking(1, body=b"a"),
        asking(2, body=b"b"),
        asking(3, body=b""),
        asking(4, version=2, body=b"a"),
        asking(5, api=FIND_COORDINATOR, body=b"a"),
    ]
    for _ in range(3):
        found = [answered(link, question, 4)[1] for question in questions]
        assert found == [struct.pack(">i", number) for number in range(1, 6)]
    assert len(node.control.requests) == 5


def test_a_change_ends_cached_answers(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, by_number, word_of("g"))
    words = AnswerVersions(node.shared.cached_answers)
    link = node.connect()
    changes = (
        words.topics_changed,
        lambda: words.group_changed("g"),
        words.groups_changed,
    )
    for number, change in enumerate(changes):
        first, second, third = (10 * number + each for each in range(3))
        assert answered(link, asking(first), 4)[1] == struct.pack(">i", first)
        assert answered(link, asking(second), 4)[1] == struct.pack(">i", first)
        change()
        assert answered(link, asking(third), 4)[1] == struct.pack(">i", third)
        words.topics_changed()
    other = next(name for name in map(str, range(100)) if word_of(name) != word_of("g"))
    assert answered(link, asking(100), 4)[1] == struct.pack(">i", 100)
    words.group_changed(other)
    assert answered(link, asking(101), 4)[1] == struct.pack(">i", 100)


def test_an_answer_from_logs_is_cached_until_one_of_them_changes(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, lambda request: request.body + by_number(request), slots=(0, 2))
    link, slots = node.connect(), node.shared.slots
    for number, slot in enumerate((0, 2, 1)):
        for body in (b"", b"odd", b"whole008"):  # the versions are behind a padded body and answer
            first, second, third = (100 * number + each for each in range(3))
            assert answered(link, asking(first, body=body), len(body) + 4)[1] == body + struct.pack(
                ">i", first
            )
            assert answered(link, asking(second, body=body), len(body) + 4)[1] == body + struct.pack(
                ">i", first
            )
            slots[slot, Slot.SEQUENCE] += 2
            expected = first if slot == 1 else third
            assert answered(link, asking(third, body=body), len(body) + 4)[1] == body + struct.pack(
                ">i", expected
            )
            slots[0, Slot.SEQUENCE] += 2


def test_an_answer_from_before_a_change_is_not_kept(node_factory: NodeFactory) -> None:
    shared: list[Shared] = []

    def changing(request: ClientRequest) -> bytes:
        return by_number(request)

    node = caching_node(node_factory, changing)
    shared.append(node.shared)
    made = node.control.answer

    def late(request: ClientRequest) -> bytes | None:
        answer = made(request)
        shared[0].cached_answers[AnswerVersion.TOPICS] += 1
        return answer

    node.control.answer = late
    link = node.connect()
    assert [answered(link, asking(number), 4)[1] for number in (1, 2)] == [b"\0\0\0\1", b"\0\0\0\2"]


def test_no_answer_is_cached_while_a_log_dir_has_failed(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, by_number)
    link = node.connect()
    assert [answered(link, asking(number), 4)[1] for number in (1, 2)] == [b"\0\0\0\1"] * 2
    node.shared.log_dir_errors[-1] = 5
    assert [answered(link, asking(number), 4)[1] for number in (3, 4)] == [b"\0\0\0\3", b"\0\0\0\4"]


def test_a_quota_sees_every_request(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, by_number)
    link = node.connect()
    assert answered(link, asking(1), 4)[1] == b"\0\0\0\1"
    table = QuotaTable({((CLIENT_ID, "other"),): {REQUEST_PERCENTAGE: 50.0}})
    node.control.send(Image(2, False, (), quotas=table))
    assert answered(link, asking(2), 4)[1] == b"\0\0\0\2"


def test_memory_is_bounded_and_every_answer_right(node_factory: NodeFactory) -> None:
    """More questions, and more bytes, than there is room for: all are forgotten, and cached
    again."""
    node = caching_node(node_factory, lambda request: request.body)
    link = node.connect()
    random = Random(1)
    for length, count in (
        (4, AnswerTable.MAX_ANSWERS * 5 // 4),
        (30_000, AnswerTable.MAX_POOL_BYTES // 50_000),
    ):
        bodies = [random.randbytes(length) for _ in range(count)]
        for _ in range(2):
            for body in bodies:
                assert answered(link, asking(1, body=body), length)[1] == body


def test_an_answer_that_grows_or_shrinks_is_cached_again(node_factory: NodeFactory) -> None:
    sizes = [10, 40, 5, 2000, 8]
    now: list[int] = []
    node = caching_node(node_factory, lambda _: bytes([now[-1] % 251]) * now[-1])
    words, link = AnswerVersions(node.shared.cached_answers), node.connect()
    for size in sizes:
        now.append(size)
        words.topics_changed()
        for _ in range(3):
            assert answered(link, asking(1), size)[1] == bytes([size % 251]) * size
    assert len(node.control.requests) == len(sizes)


def test_large_answers_are_controls_each_time(node_factory: NodeFactory) -> None:
    node = caching_node(node_factory, lambda _: bytes(Answer.MAX_BYTES))
    link = node.connect()
    for number in (1, 2):
        assert answered(link, asking(number), Answer.MAX_BYTES)[0] == number
    assert len(node.control.requests) == 2


def test_answers_that_the_socket_does_not_take_arrive_complete_and_in_order(
    node_factory: NodeFactory,
) -> None:
    size, count = 50_000, 400
    node = caching_node(node_factory, lambda request: request.body[:1] * size)
    link = node.connect()
    for body in (b"a", b"b"):
        answered(link, asking(0, body=body), size)
    link.sendall(b"".join(asking(number, body=b"ab"[number % 2 :][:1]) for number in range(count)))
    for number in range(count):
        frame = read(link, 8 + size)
        assert struct.unpack_from(">ii", frame) == (4 + size, number)
        assert frame[8:] == b"ab"[number % 2 :][:1] * size


def test_words_of_groups_do_not_change_the_topics_word() -> None:
    found = {word_of(f"group-{number}") for number in range(20_000)}
    assert AnswerVersion.TOPICS not in found
    assert found == set(range(AnswerVersion.KEYED, AnswerVersion.WORDS))
