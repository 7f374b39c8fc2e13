"""A connection's row begins anew, but stays in the lists of the pump that it is in."""

from kbroker.net.rows import Connection, Flag
from tests.net.contexts import new_context


def test_a_row_that_is_used_again_keeps_its_lists_and_nothing_else() -> None:
    context = new_context()
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
