"""Messages of moves between log dirs: control to an IO worker (called), and MoveCaughtUp and
MoveFailed back (sent).

Part of the contract in `messages.py`.
"""

from msgspec import Struct


class BeginMove(Struct, frozen=True, array_like=True, tag=True):
    """Copy a log to another log dir while it stays in use (KIP-113). Replied with nothing when the
    ``-future`` folder is made; then MoveCaughtUp, or MoveFailed."""

    slot: int
    generation: int
    log_dir: str


class CancelMove(Struct, frozen=True, array_like=True, tag=True):
    """End a move: the log stays in its log dir, and the copy is removed. Replied with nothing, also
    when there is no move."""

    slot: int


class MovesInProgress(Struct, frozen=True, array_like=True, tag=True):
    """Replied with a tuple of MoveProgress."""


class MoveProgress(Struct, frozen=True, array_like=True):
    """bytes: copied of the slot's log; next_offset: where the copy ends."""

    slot: int
    bytes: int
    next_offset: int


class SwitchMove(Struct, frozen=True, array_like=True, tag=True):
    """Pause appends and reads and complete the copy. Replied with True: FinishMove will follow;
    with False when the log has grown too fast, and then it stays in use where it is."""

    slot: int
    generation: int


class FinishMove(Struct, frozen=True, array_like=True, tag=True):
    """All processes know the new log_dir of the log: continue there. Replied with nothing."""

    slot: int
    log_dir: str


class MoveCaughtUp(Struct, frozen=True, array_like=True, tag=True):
    """The copy of a log in log_dir has nearly caught up. Sent repeatedly until SwitchMove comes."""

    slot: int
    generation: int
    log_dir: str


class MoveFailed(Struct, frozen=True, array_like=True, tag=True):
    """A move has ended without success; the log is where it was. Sent."""

    slot: int
    generation: int
    log_dir: str
