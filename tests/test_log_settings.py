"""What a test leaves behind in logging is found."""

import logging
from collections.abc import Iterator

import pytest

from tests.log_settings import log_settings


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("kbroker.test_log_settings")
    yield made
    made.handlers.clear()
    made.setLevel(logging.NOTSET)
    made.disabled = False


def test_levels_and_handlers_are_seen(logger: logging.Logger) -> None:
    before = log_settings()
    logger.addHandler(logging.NullHandler())
    assert log_settings() == before, "it writes nothing"
    logger.setLevel(logging.DEBUG)
    changed = log_settings()
    assert changed != before
    logger.setLevel(logging.NOTSET)
    assert log_settings() == before
    logger.addHandler(logging.StreamHandler())
    assert log_settings() not in (before, changed)
    logger.handlers.clear()
    logger.disabled = True
    assert log_settings() != before


def test_the_root_logger_is_seen() -> None:
    before, handler = log_settings(), logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    try:
        assert log_settings() != before
    finally:
        logging.getLogger().removeHandler(handler)
    assert log_settings() == before
