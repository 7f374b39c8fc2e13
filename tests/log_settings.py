"""The settings of logging that a test may leave changed in its process: then log lines of later
tests are formatted and written, which costs more than what they measure."""

import logging


def log_settings() -> dict[str, object]:
    """Level and handlers of the root logger and of kbroker's loggers, where they are not the
    defaults.

    Handlers that write nothing and those of pytest are left out, and so are other libraries'
    loggers, which get theirs when the library is imported."""
    found: dict[str, object] = {"disabled up to": logging.root.manager.disable}
    found["root"] = _settings(logging.root)
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.startswith("kbroker") and (own := _settings(logger)):
            found[name] = own
    return found


def _settings(logger: logging.Logger) -> tuple[object, ...]:
    handlers = [handler for handler in logger.handlers if not _is_harmless(handler)]
    if not handlers and logger.level == logging.NOTSET and not logger.disabled:
        return ()
    return (logger.level, logger.disabled, *handlers)


def _is_harmless(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.NullHandler) or type(handler).__module__.startswith("_pytest.")
