"""Byte layout of a record batch, magic 2 (KIP-98), as plain integers for Python and for kernels."""

BASE_OFFSET = 0  # int64
LENGTH = 8  # int32: bytes after this field
PARTITION_LEADER_EPOCH = 12  # int32
MAGIC = 16  # int8
CRC = 17  # uint32, CRC-32C of everything from ATTRIBUTES to the end
ATTRIBUTES = 21  # int16
LAST_OFFSET_DELTA = 23  # int32
BASE_TIMESTAMP = 27  # int64, ms
MAX_TIMESTAMP = 35  # int64, ms
PRODUCER_ID = 43  # int64
PRODUCER_EPOCH = 51  # int16
BASE_SEQUENCE = 53  # int32
RECORD_COUNT = 57  # int32
RECORDS = 61

LENGTH_OVERHEAD = 12  # bytes before those that LENGTH counts
HEADER_BYTES = RECORDS
MAGIC_V2 = 2

ATTRIBUTE_CODEC_MASK = 0x07  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40
