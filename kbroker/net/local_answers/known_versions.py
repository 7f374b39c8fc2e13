"""The requests for ApiVersions that the kernel answers (`api_versions_kernel.py`)."""

import numpy as np
from numpy.typing import NDArray

from kbroker.net.api_versions import KnownRequest
from kbroker.net.local_answers.api_versions_kernel import forget_versions, know_versions
from kbroker.net.network_tables import NetworkTables, new_answer_table
from kbroker.net.rows import AnswerTable, Context


class KnownVersions:
    """Runs in: network. Owner: Dispatch. Requests have the numbers that the kernel gives them."""

    def __init__(self, tables: NetworkTables) -> None:
        self._tables = tables
        self._arrays = new_answer_table(tables.words, Context.VERSION_ANSWERS, AnswerTable.MAX_ANSWERS)
        self._known: dict[int, KnownRequest] = {}

    def add(self, frame: bytes, known: KnownRequest) -> None:
        """Let the kernel answer this request from now on, unless there are too many. frame: without
        its size."""
        request: NDArray[np.uint8] = np.frombuffer(frame, np.uint8)
        answer: NDArray[np.uint8] = np.frombuffer(known.answer, np.uint8)
        number = int(
            know_versions(
                self._tables.address, request.ctypes.data, len(frame), answer.ctypes.data, len(answer)
            )
        )
        if number >= 0:
            self._known[number] = known

    def at(self, number: int) -> KnownRequest:
        """The request with a number, which the kernel has answered in this turn."""
        return self._known[number]

    def forget(self) -> None:
        """Leave all requests to Python, until it has answered them again."""
        if self._known:
            forget_versions(self._tables.address)
            self._known.clear()
