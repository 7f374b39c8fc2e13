"""``kbroker serve``: the broker in the foreground, logs to stderr, until SIGTERM or Ctrl-C.

It imports little, because its modules stay in the memory of every process of the broker.
"""

import logging
import os
from pathlib import Path

from kbroker.config import properties
from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.kernels import image, installed, packaged
from kbroker.kernels.cache import cache_folder
from kbroker.supervisor.hardening import harden
from kbroker.supervisor.log_lines import FORMAT, LEVEL, log_to_stderr
from kbroker.supervisor.unsupported import unsupported

log = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_CONFIG = 2


def serve(file: Path | None, overrides: list[str], from_environment: bool = False) -> int:
    """Run a broker with the settings of a server.properties file, of variables ``KAFKA_*`` (if
    enabled), and of ``key=value`` overrides; later ones override earlier ones.

    Returns the process's exit code: 0 after an orderly stop, 1 when it could not start or stop
    cleanly, 2 for bad settings.
    """
    wrong = log_to_stderr(os.environ.get(LEVEL, "INFO"), os.environ.get(FORMAT, "text"))
    for line in wrong:
        log.error("%s", line)
    if wrong:
        return EXIT_CONFIG
    harden(overrides)
    try:
        pairs = properties.read(file) if file else {}
        if from_environment:
            from kbroker.config import environment  # a module that most brokers do not need

            pairs = environment.over(pairs, os.environ)
        config, warnings = BrokerConfig.load(pairs, properties.parse_overrides(overrides))
    except ConfigError as error:
        for line in str(error).splitlines():
            log.error("%s", line)
        return EXIT_CONFIG
    for warning in warnings:
        log.warning("%s", warning)
    problems = unsupported(config)
    for problem in problems:
        log.error("%s", problem)
    if problems:
        return EXIT_CONFIG
    try:
        cache_folder()
    except OSError as error:
        log.error("no folder for the compiled kernels, set XDG_CACHE_HOME to another: %s", error)
        return EXIT_FAILED
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of numpy; this process forks
    if not use_kernels(config):
        return EXIT_FAILED
    from kbroker.supervisor.supervisor import Supervisor, exit_code_of

    try:
        supervisor = Supervisor(config)
    except ConfigError as error:
        log.error("%s", error)
        return EXIT_CONFIG
    return exit_code_of(supervisor)


def use_kernels(config: BrokerConfig) -> bool:
    """Let this process and its children use compiled kernels; compile them first if necessary, but
    not for a broker that cannot start: then the reason is logged, and the result is False.

    Without a cache folder every start compiles them."""
    if image.use():
        return True
    if not installed.has_compiler():  # the checks of a start import kernels, too
        log.error("cannot start: %s", packaged.reason())
        return False
    from kbroker.supervisor import start_check  # a start that need not compile meets them soon enough
    from kbroker.supervisor.log_dirs import LogDirsUnusable, start_failure

    try:
        start_check.check(config)
    except (LogDirsUnusable, OSError) as error:
        log.error("%s", start_failure(error))
        return False
    from kbroker.cli.first_compilation import compile_kernels

    return compile_kernels()
