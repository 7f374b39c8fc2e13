"""The tables of a network process: a connection's row that is used again, and the memory for
requests."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.network_tables import chunks_of, new_answer_table
from kbroker.net.rows import Answer, AnswerTable, Connection, Context, Flag
from kbroker.net.rows.chunk_kernel import reserve_bytes
from kbroker.protocol.long_frame import MAX_SLICED_BYTES
from tests.net.tables import new_tables


def test_a_row_that_is_used_again_keeps_its_lists_and_nothing_else() -> None:
    tables = new_tables()
    number = tables.take_row(7, Flag.AUTHENTICATED, 11)
    row = tables.connections[number]
    first = int(row[Connection.GENERATION])
    row[:] = 99
    row[Connection.GENERATION] = first
    row[Connection.FLAGS] = Flag.DIRTY | Flag.STALLED | Flag.BUSY
    row[Connection.DIRTY_NEXT], row[Connection.STALLED_NEXT] = 5, 6
    tables.give_row(number)
    assert tables.take_row(8, Flag.FETCH, 12) == number
    expected = Connection.row()
    expected[Connection.FD] = 8
    expected[Connection.FLAGS] = Flag.FETCH | Flag.OPEN | Flag.DIRTY | Flag.STALLED
    expected[[Connection.CHUNK, Connection.HEAD, Connection.TAIL]] = -1
    expected[Connection.DIRTY_NEXT], expected[Connection.STALLED_NEXT] = 5, 6
    expected[Connection.LAST_NS] = 12
    expected[Connection.GENERATION] = first + 1
    assert tables.connections[number].tolist() == expected.tolist()


def test_the_words_of_a_new_answer_table_describe_its_arrays() -> None:
    words = new_tables().words
    rows, index, pool = new_answer_table(words, Context.TOPIC_PARTS, 16)
    table = words[Context.TOPIC_PARTS : Context.TOPIC_PARTS + AnswerTable.WORDS]
    assert rows.shape == (16, Answer.WORDS)
    assert table[AnswerTable.CAPACITY] == 16
    assert table[AnswerTable.ROWS] == rows.ctypes.data
    assert table[AnswerTable.INDEX] == index.ctypes.data
    assert table[AnswerTable.INDEX_ENTRIES] == len(index) > 16
    assert table[AnswerTable.POOL] == pool.ctypes.data
    assert table[AnswerTable.POOL_BYTES] == len(pool)
    assert table[AnswerTable.COUNT] == table[AnswerTable.POOL_USED] == 0
    assert not index.any()


MIB = 1 << 20


@pytest.mark.parametrize(
    ("settings", "chunks"),
    [
        ({}, 128),
        ({"queued.max.request.bytes": "0"}, 128),
        ({"queued.max.request.bytes": str(200 * MIB)}, 100),
        ({"queued.max.request.bytes": str(400 * MIB), "num.network.threads": "4"}, 56),
        ({"queued.max.request.bytes": str(100 * MIB)}, 56),
        ({"queued.max.request.bytes": str(8 * MIB), "socket.request.max.bytes": str(MIB)}, 4),
        ({"queued.max.request.bytes": str(900 * MIB)}, 128),
    ],
)
def test_the_bytes_of_waiting_requests_are_shared_by_the_network_processes(
    settings: dict[str, str], chunks: int
) -> None:
    config = BrokerConfig({"num.network.threads": "1", **settings})
    assert chunks_of(config, 256 * MIB) == chunks


def test_requests_take_no_more_than_the_bytes_that_may_wait() -> None:
    settings = {
        "num.network.threads": "1",
        "queued.max.request.bytes": str(8 * MIB),
        "socket.request.max.bytes": str(2 * MIB),
    }
    tables = new_tables(settings)
    assert tables.words[Context.MAX_FRAME] == 2 * MIB
    taken = [reserve_bytes(tables.address, 2 * MIB) for _ in range(5)]
    assert [offset >= 0 for offset in taken] == [True] * 4 + [False]
    without = new_tables({"num.network.threads": "1"})
    assert all(reserve_bytes(without.address, 2 * MIB) >= 0 for _ in range(32))


def test_the_largest_answer_to_a_fetch_has_a_size_of_31_bits() -> None:
    assert new_tables().words[Context.FETCH_MAX_BYTES] == 57671680
    unlimited = new_tables({"fetch.max.bytes": str((1 << 31) - 1)})
    assert unlimited.words[Context.FETCH_MAX_BYTES] + MAX_SLICED_BYTES < 1 << 31


@pytest.mark.parametrize(
    ("settings", "word", "value"),
    [
        ({"sasl.server.max.receive.size": "5000"}, Context.MAX_FIRST_FRAME, 5000),
        ({"socket.request.max.bytes": "6000"}, Context.MAX_FIRST_FRAME, 6000),
        ({"socket.request.max.bytes": "6000"}, Context.MAX_FRAME, 6000),
        ({"kbroker.sendfile.min.bytes": "7000"}, Context.SENDFILE_MIN, 7000),
        ({"fetch.max.bytes": "8000"}, Context.FETCH_MAX_BYTES, 8000),
    ],
)
def test_a_limit_of_the_kernels_is_that_of_its_setting(
    settings: dict[str, str], word: int, value: int
) -> None:
    assert new_tables(settings).words[word] == value
