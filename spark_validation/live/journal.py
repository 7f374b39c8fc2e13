"""Journal of a stream: a line for each micro-batch that was added to the state, so that a restarted
job continues from there.

Spark commits a micro-batch after it was handled. A job that dies in between gets it again under the
same number, with the same rows. The line is written first, so the batch is then known and counts
once.
"""

import json
from pathlib import Path
from typing import Any


class Journal:
    """The file of one stream. Owner: the streaming job. `entries`: lines of the job's earlier
    runs."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]  # a line that the job died in was never committed
        self.entries: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        self._known = {entry["batch"] for entry in self.entries}
        self._file = open(path, "ab")  # noqa: SIM115
        self._file.truncate(len(whole))

    def add(self, batch: int, content: dict[str, Any]) -> bool:
        """Append the line of a micro-batch; False if the journal already has it."""
        if batch in self._known:
            return False
        self._known.add(batch)
        self._file.write(json.dumps({"batch": batch} | content).encode() + b"\n")
        self._file.flush()
        return True

    def close(self) -> None:
        self._file.close()
