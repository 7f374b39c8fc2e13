"""Reading logs from the control process, on a thread of its own: its loop never waits for a disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.schema import ProtocolError

T = TypeVar("T")
MOST_FILES = 512
MOST_READERS = 1024


class LogReading:
    """Readers by folder. Runs in: control, all reading on one thread. Owner: the Broker."""

    def __init__(self, dir_errors: LogDirErrors) -> None:
        self._dir_errors = dir_errors
        self._thread = ThreadPoolExecutor(1, "log-reader")
        self._files = OpenFiles(MOST_FILES)
        self._readers: dict[str, LogReader] = {}

    async def read(self, folder: str, step: Callable[[LogReader], T]) -> T:
        """Run a step with the folder's reader. Raises KAFKA_STORAGE_ERROR for an unreadable log."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._run, folder, step)
        except (OSError, CorruptLog, ProtocolError) as error:
            self._dir_errors.met(folder, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _run(self, folder: str, step: Callable[[LogReader], T]) -> T:
        reader = self._readers.get(folder)
        if reader is None:
            if len(self._readers) >= MOST_READERS:
                del self._readers[next(iter(self._readers))]
            reader = self._readers[folder] = LogReader(folder, self._files)
        return step(reader)

    async def forget(self, folders: list[str]) -> None:
        """Partitions that are gone: a successor of the same name starts from nothing."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._forget, folders)

    def _forget(self, folders: list[str]) -> None:
        for folder in folders:
            self._readers.pop(folder, None)
            self._files.forget_folder(folder)

    def close(self) -> None:
        """Wait for what is being read."""
        self._thread.shutdown(wait=True)
