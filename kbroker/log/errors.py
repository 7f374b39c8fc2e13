"""Errors of a log on disk, apart from OSError."""


class CorruptLog(Exception):
    """A file of a log does not hold what it must; the text names file and position.

    Recovery mends it when it can; a reader answers its client KAFKA_STORAGE_ERROR."""


class UnsupportedFormat(CorruptLog):
    """Batches of message format 0 or 1, which Kafka up to 0.10 wrote; convert them with Apache
    Kafka first."""
