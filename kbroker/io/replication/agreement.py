"""Finds the offset up to which a follower's log agrees with its leader's, by leader epochs (KIP-101,
KIP-279). Pure.

Source: Kafka's AbstractFetcherThread.getOffsetTruncationState.
"""

from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache


def agreed_end(
    mine: LeaderEpochFileCache,
    my_end: int,
    leader: LeaderEpochFileCache,
    leader_end: int,
    high_watermark: int,
) -> int:
    """The offset up to which the follower's log is the leader's; what follows has to go.

    high_watermark: the follower's, below which everything is the leader's, too; it counts when epochs say nothing."""
    asked, offset = mine.latest, my_end
    while asked >= 0:
        epoch, end = leader.end_offset_for(asked, leader_end)
        if epoch < 0:
            return min(high_watermark, offset)
        known, known_end = mine.end_offset_for(epoch, my_end)
        if known == epoch:
            return min(known_end, end, offset)
        if known < 0 or known >= asked:
            return min(high_watermark, offset)
        asked, offset = known, min(known_end, offset)
    return min(high_watermark, my_end)
