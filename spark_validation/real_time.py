"""Real-time order in the history of one append-only log, in numpy.

An operation takes effect at one moment between its begin and its end. The log shows the order of
these moments, by place:

- an append at offset o has the place 2 * o + 1. It begins when its record is sent and is done when
  it is acknowledged; without an answer it may take effect at any time after the send, done NEVER;
- a read that ends at offset e, so that it sees the records below e and no other, has the place
  2 * e;
- a record at offset o in a consumer's hands shows that the log had reached the place 2 * (o + 1).
  Where and when that read began, and where it ended, is not known.

An order of all operations that keeps real time exists exactly when no operation begins after one at
a higher place was done: linearizability as Herlihy and Wing define it, for an object that shows
the order of its operations. So a pass over the places from each side finds every violation, and
sorting is the whole cost.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
ALWAYS, NEVER = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


class Findings(NamedTuple):
    """A value an operation. overtaken_ns: when an operation at a higher place was done, if that was
    before this one was sent; else NEVER. missed_ns: when the last read began that ended at a lower
    place, if that was after this one was done; else ALWAYS."""

    overtaken_ns: Numbers
    missed_ns: Numbers


def examined(
    place: Numbers,
    sent_ns: Numbers,
    done_ns: Numbers,
    asked_ns: Numbers,
    later_ns: Numbers | int = NEVER,
    earlier_ns: Numbers | int = ALWAYS,
) -> Findings:
    """Operations of some places, at least one, in any order.

    sent_ns: when an append began, ALWAYS for a read. asked_ns: when a read began; ALWAYS for an
    append, and where it is not known. Of places that are not among these: later_ns, when the first
    operation at a higher one was done; earlier_ns, when the last read that ended at a lower one
    began.
    """
    order = np.argsort(place, kind="stable")
    places, which = np.unique(place, return_inverse=True)
    first = np.searchsorted(place[order], places)
    done = np.minimum.reduceat(done_ns[order], first)
    requested = np.maximum.reduceat(asked_ns[order], first)
    above = np.minimum.accumulate(np.append(done[1:], NEVER)[::-1])[::-1][which]
    below = np.maximum.accumulate(np.append(ALWAYS, requested[:-1]))[which]
    above, below = np.minimum(above, later_ns), np.maximum(below, earlier_ns)
    return Findings(np.where(above < sent_ns, above, NEVER), np.where(below > done_ns, below, ALWAYS))
