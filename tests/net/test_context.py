"""A connection's row begins anew, but stays in the lists of the pump that it is in."""

from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.shared import Shared, Sizes
from kbroker.net.context import Context
from kbroker.net.rows import Connection, Flag


def test_a_row_that_is_used_again_keeps_its_lists_and_nothing_else(tmp_path: Path) -> None:
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    context = Context(Shared(Sizes(2, 1, 16, 64, 64 << 20)), 0, config)
    number = context.take_row(7, Flag.AUTHENTICATED, 11)
    row = context.connections[number]
    first = int(row[Connection.GENERATION])
    row[:] = 99
    row[Connection.GENERATION] = first
    row[Connection.FLAGS] = Flag.DIRTY | Flag.STALLED | Flag.BUSY
    row[Connection.DIRTY_NEXT], row[Connection.STALLED_NEXT] = 5, 6
    context.give_row(number)
    assert context.take_row(8, Flag.FETCH, 12) == number
    expected = Connection.row()
    expected[Connection.FD] = 8
    expected[Connection.FLAGS] = Flag.FETCH | Flag.OPEN | Flag.DIRTY | Flag.STALLED
    expected[[Connection.CHUNK, Connection.HEAD, Connection.TAIL]] = -1
    expected[Connection.DIRTY_NEXT], expected[Connection.STALLED_NEXT] = 5, 6
    expected[Connection.LAST_NS] = 12
    expected[Connection.GENERATION] = first + 1
    assert context.connections[number].tolist() == expected.tolist()
