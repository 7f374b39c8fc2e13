"""Fields of an exception of the client library."""

from confluent_kafka import KafkaError, KafkaException


def error_of(failure: KafkaException) -> KafkaError:
    """The error that a KafkaException carries."""
    error = failure.args[0]
    assert isinstance(error, KafkaError)
    return error
