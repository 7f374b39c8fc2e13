"""The hot state of one partition's append path, as words of a row that the drain kernel updates.

One array ``int64[max_partitions, ROW_WORDS]`` lives in each IO worker (private memory). Python fills a row when a
segment becomes active (open, recovery, roll, truncate) and reads it back for everything else; while a partition is open
the row, not a Python attribute, is the truth for position, next offset and index state.
"""

ROW_WORDS = 40
CLOSED = 0
OPEN = 1
DISK_FULL = 2
NEVER = 1 << 62  # a limit that nothing reaches
NO_FD = -1  # the files are not open now

ROW_OPEN = 0  # CLOSED: entries get NOT_LEADER_OR_FOLLOWER; OPEN; DISK_FULL: entries get KAFKA_STORAGE_ERROR
ROW_LOG_FD = 1
ROW_INDEX_FD = 2
ROW_TIME_INDEX_FD = 3
ROW_BASE_OFFSET = 4  # of the active segment
ROW_POSITION = 5  # bytes of whole batches in the active .log
ROW_NEXT_OFFSET = 6
ROW_LEADER_EPOCH = 7
ROW_INDEX_BYTES = 8  # bytes of entries in .index (8 an entry)
ROW_TIME_INDEX_BYTES = 9  # bytes of entries in .timeindex (12 an entry)
ROW_SINCE_INDEX = 10  # bytes appended since the last index entry
ROW_MAX_TIMESTAMP = 11  # largest timestamp in the active segment, -1 if none
ROW_MAX_TIMESTAMP_OFFSET = 12  # its offset (last offset of the batch that raised it)
ROW_LAST_INDEXED_TIMESTAMP = 13  # of the last .timeindex entry, -1 if none
ROW_INDEX_INTERVAL = 14  # index.interval.bytes
ROW_SEGMENT_BYTES = 15  # segment.bytes: a batch that would pass it rolls first
ROW_INDEX_LIMIT = 16  # segment.index.bytes: a full index rolls
ROW_ROLL_AT_MS = 17  # wall clock at which the next append rolls (segment.ms - jitter), 2^62 for never
ROW_FIRST_TIMESTAMP = 18  # timestamp of the segment's first batch, -1 when empty (Kafka rolls by it)
ROW_OTHER_BYTES = 19  # bytes of all older segments
ROW_UNFLUSHED_RECORDS = 20  # since the last fdatasync, for flush.messages
ROW_FLUSH_RECORDS = 21  # flush.messages, NEVER for Kafka's default
ROW_FIRST_UNSTABLE = 23  # first offset of the earliest open transaction, -1 if none: LSO = that, else HW
ROW_SEGMENT_MS = 24  # segment.ms minus this segment's jitter
ROW_LAST_APPEND_MS = 25
ROW_LAST_FLUSH_MS = 26  # when flush.ms last asked for a sync
ROW_FLUSH_MS = 27  # flush.ms, NEVER for Kafka's default
ROW_ROLLED = 28  # 1: a segment was closed since the last sync
ROW_BATCH_EPOCH = 29  # follower: leader epoch of the last batch that was copied
ROW_TOO_FEW = 30  # 1: fewer in-sync replicas than min.insync.replicas, so acks=all gets NOT_ENOUGH_REPLICAS
ROW_PLAIN_SYNC = (
    31  # 1: one fdatasync of the active .log puts everything on disk (nothing rolled, names are synced)
)
ROW_LAST_ABORTED = 33  # behind this offset no aborted transaction ends; -1: there is none
ROW_CUTS = 32  # how often the log was truncated: a sync begun before speaks of other records
ROW_RESERVED = 34  # end of the blocks that reserve_kernel has reserved; below ROW_POSITION: all are used
ROW_RESERVE_AT = 35  # position at which it looks again, NEVER: in this segment not any more
ROW_RESERVED_MS = 36  # when it looked last
ROW_RESERVE_MOST = 37  # bytes of its largest chunk
