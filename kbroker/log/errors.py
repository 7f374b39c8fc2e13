"""Errors of a log on disk, apart from OSError."""


class CorruptLog(Exception):
    """A file of a log is damaged; the text names file and position.

    Recovery repairs it if possible; a reader answers KAFKA_STORAGE_ERROR."""


class UnsupportedFormat(CorruptLog):
    """Batches of message format 0 or 1, which Kafka up to 0.10 wrote; convert them with Apache
    Kafka first."""
