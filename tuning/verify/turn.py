"""One turn: a broker with these settings does the work once, in a folder that is removed."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tuning.verify.broker import TurnBroker, TurnFailed
from tuning.verify.figures import Figures
from tuning.verify.load import Load, Parts
from tuning.verify.wire import Refused

PREFIX = ".kbroker-tune-verify-"
SHARE_OF_FREE = 0.25

Turn = Callable[[Mapping[str, str], float], Figures]
"""A turn by the broker's settings and its seconds of load. Raises TurnFailed."""


class NoRoom(ValueError):
    """The folder cannot hold what a turn writes, or cannot be written to."""


def check_room(folder: Path, max_bytes: int) -> None:
    """Raises NoRoom."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise NoRoom(f"{folder}: {error.strerror or error}; name a folder with --dir") from error
    if max_bytes > free * SHARE_OF_FREE:
        raise NoRoom(
            f"{folder}: a quarter of what is free is less than the {max_bytes} bytes that a turn writes"
        )


def turns_below(folder: Path, batch_bytes: int, max_bytes: int) -> Turn:
    """Turns whose data are below this folder."""

    def turn(settings: Mapping[str, str], seconds: float) -> Figures:
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        try:
            with TurnBroker(place, settings) as broker:
                parts = Parts(broker.address, Load(seconds, batch_bytes, max_bytes))
                try:
                    return parts.run(broker.cpu_seconds, broker.data_dir)
                except (OSError, Refused) as error:
                    broker.check()
                    raise TurnFailed(f"under load: {error}") from error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return turn
