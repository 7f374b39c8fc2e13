"""Free space in the file systems of the log dirs, and the time until they are full."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kbroker.http.time_to_full import TimeToFull
from kbroker.ipc.log_dir_errors import LogDirErrors


class Space:
    """Runs in: http, in the console's sampling thread. forecasts: those of /metrics, by log dir; a
    log dir that was offline at the start has none."""

    def __init__(self, errors: LogDirErrors, forecasts: Mapping[str, TimeToFull]) -> None:
        self._errors = errors
        self._forecasts = forecasts

    @property
    def paths(self) -> Sequence[str]:
        """All log dirs."""
        return self._errors.paths

    def sample(self, now_s: float) -> list[dict[str, Any]]:
        """Each log dir; sizes are None where the file system does not report them."""
        return [self._sample(path, now_s) for path in self._errors.paths]

    def _sample(self, path: str, now_s: float) -> dict[str, Any]:
        found: dict[str, Any] = {
            "path": path,
            "online": self._errors.of(path) == 0,
            "size_bytes": None,
            "free_bytes": None,
            "full_in_s": None,
        }
        try:
            space = os.statvfs(path)
        except OSError:
            return found
        found["size_bytes"] = space.f_blocks * space.f_frsize
        found["free_bytes"] = space.f_bavail * space.f_frsize
        forecast = self._forecasts.get(path)
        if forecast is None:
            return found
        forecast.add(now_s, space.f_bavail * space.f_frsize)
        seconds = forecast.seconds()
        if seconds is not None and seconds != float("inf"):
            found["full_in_s"] = round(seconds)
        return found
