"""The present ends of the segment files of a partition, at a batch border: offsets of the streaming
reader.

A position is (segment, byte). It walks the headers of what was appended since the last look.
"""

from dataclasses import replace

from spark_validation.segments import layout
from spark_validation.segments.ranges import Piece, Range, pieces_of
from spark_validation.segments.walk import chunks

Position = tuple[int, int]
START: Position = (-1, 0)
WHOLE = 1 << 62


def pieces_after(folder: str, start: Position) -> list[Piece]:
    """Files and bytes after a position, as they are now; their ends may cut a batch."""
    found = []
    for piece in pieces_of(folder, WHOLE):
        if piece.segment > start[0]:
            found.append(piece)
        elif piece.segment == start[0] and piece.end > start[1]:
            found.append(replace(piece, start=start[1]))
    return found


def end_of(folder: str, start: Position) -> Position:
    """The border after the last whole batch."""
    at = start
    for chunk in chunks(folder, tuple(pieces_after(folder, start)), False):
        last = chunk.rows[-1]
        if last[layout.SIZE] > 0:
            at = (chunk.piece.segment, int(last[layout.POSITION] + last[layout.SIZE]))
    return at


def between(folder: str, topic: str, partition: int, start: Position, end: Position) -> Range | None:
    """The work from one border to another; None when there is none."""
    pieces = []
    for piece in pieces_after(folder, start):
        if piece.segment > end[0]:
            break
        pieces.append(replace(piece, end=min(piece.end, end[1])) if piece.segment == end[0] else piece)
    pieces = [piece for piece in pieces if piece.end > piece.start]
    return Range(folder, topic, partition, tuple(pieces)) if pieces else None
