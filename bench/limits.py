"""Bare C loops that only do the unavoidable work: the limit beside a figure. A loop runs in the
turn of its scenario.

Those that answer are a broker of one thread and a few lines (`loadgen/bare_broker.c`), which the
same load generator asks with the same frames over as many connections.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.scenario import Limit
from bench.turn import Turn

WARM_SECONDS = 0.2
SEND_BUFFERS = (0, 102400, 1 << 20)
"""Receive buffers of bare loops (0: the kernel's default). The best one differs by machine; a loop
counts with its best."""
ECHO = "receive the same frames, answer each"
PRODUCE = "receive the same frames, CRC-32C, pwrite, answer"
MEGABYTE = 1e6


def per_second(answer: Mapping[str, Any], unit: str) -> float:
    return float(answer[unit]) / float(answer["seconds"])


def ask_bare(turn: Turn, command: str, options: Mapping[str, object], **bare: object) -> dict[str, Any]:
    """The answer of a load on a bare broker. bare: its options."""
    turn.sync()
    with turn.generator.serve("bare-broker", {"partitions": turn.partitions, **bare}) as port:
        return turn.generator.run(command, {**options, "port": port})


def again(turn: Turn, **bare: object) -> dict[str, Any]:
    """The turn's last load, for a shorter time, on a bare broker."""
    command, options = turn.last
    timed = {"warm": WARM_SECONDS, "seconds": turn.size.limit_seconds} if "seconds" in options else {}
    if "answer" in options:  # of a real broker: every request gets the same
        bare = {**bare, "answer": options["answer"]}
        options = {key: value for key, value in options.items() if key != "number_in_answer"}
    return ask_bare(turn, command, {**options, **timed}, **bare)


def echo(unit: str = "requests", goal: float | None = None) -> Limit:
    """Answers as many of the same requests as it can."""
    return Limit("rate", ECHO, lambda turn: per_second(again(turn), unit), goal)


def produce(
    key: str, unit: str, load: Mapping[str, object] | None = None, goal: float | None = None
) -> Limit:
    """Takes the same bytes, checks and writes them. load: of raw connections, in place of the
    turn's last load.

    The largest rate of those with the kernel's own receive buffers and with large ones."""

    def run(turn: Turn) -> float:
        timed = {"warm": WARM_SECONDS, "seconds": turn.size.limit_seconds}
        options = turn.last[1] if load is None else {"topic": "bare", **load}
        options = {**options, **timed, "max_bytes": turn.size.produced_bytes}
        rates = [
            per_second(ask_bare(turn, "produce", options, folder=turn.target.folder, buffer=size), unit)
            for size in (0, 1 << 20)
        ]
        return max(rates) / (MEGABYTE if unit == "bytes" else 1)

    return Limit(key, PRODUCE, run, goal)


def durable(goal: float) -> Limit:
    """As many acknowledgements as it can, each after an fdatasync that serves all that was written
    before it."""

    def run(turn: Turn) -> float:
        ways = (again(turn, folder=turn.target.folder, sync=1, files=files) for files in (turn.partitions, 1))
        return max(per_second(answer, "requests") for answer in ways)

    return Limit(
        "rate",
        f"{PRODUCE} after an fdatasync: a file and a thread for each partition, or one for all",
        run,
        goal,
    )


def paced(key: str) -> Limit:
    """The p50 of acknowledgements at the same rate, in ms."""

    def run(turn: Turn) -> float:
        return float(again(turn, folder=turn.target.folder)["latency_us"]["p50"]) / 1e3

    return Limit(key, PRODUCE, run)


def accept() -> Limit:
    def run(turn: Turn) -> float:
        return float(again(turn, partitions=1)["seconds"])

    return Limit("seconds", "accept, answer one request", run)


def answer_of(bytes_each: int, connections: int) -> Limit:
    """Small reads: every request gets an answer of so many bytes."""

    def run(turn: Turn) -> float:
        folder = turn.target.folder
        sent, expected = Path(folder, "bare-requests.bin"), Path(folder, "bare-answer.bin")
        request = (100).to_bytes(4, "big") + bytes(100)
        sent.write_bytes(request * connections)
        expected.write_bytes(bytes_each.to_bytes(4, "big") + bytes(bytes_each))
        timed = {"warm": WARM_SECONDS, "seconds": turn.size.limit_seconds}
        options = {"requests": sent, "answer": expected, "connections": connections, **timed}
        return per_second(ask_bare(turn, "repeat", options, answer=expected), "requests")

    return Limit("rate", f"receive requests of 100 B, answer {bytes_each:,} B from memory", run)


def sendfile(
    file_bytes: Callable[[Turn], int], chunk: int, connections: int, goal: float | None = None
) -> Limit:
    """MB/s of one thread that sends a file of the page cache and answers no requests."""

    def run(turn: Turn) -> float:
        options = {
            "folder": turn.target.folder,
            "connections": connections,
            "file_bytes": file_bytes(turn),
            "chunk": chunk,
            "seconds": turn.size.limit_seconds,
        }
        turn.sync()
        ways = ({**options, "send_buffer": size} for size in SEND_BUFFERS)
        return max(per_second(turn.generator.run("bare-sendfile", way), "bytes") for way in ways) / MEGABYTE

    return Limit("mb_per_s", "sendfile from the page cache", run, goal)


def copy() -> Limit:
    """MB/s."""

    def run(turn: Turn) -> float:
        options = {"folder": turn.target.folder, "bytes": turn.size.cached_bytes // 4}
        return per_second(turn.generator.run("bare-copy", options), "bytes") / MEGABYTE

    return Limit("mb_per_s", "read from the page cache, pwrite", run)


def cold_read(pattern: str) -> Limit:
    """MB/s of the same files, out of the page cache, partitions at the same time as a client reads
    them."""

    def run(turn: Turn) -> float:
        for folder in sorted(turn.target.data_dir.glob(pattern)):
            turn.generator.run("evict", {"folder": folder})
        answer = turn.generator.run("bare-read", {"folder": turn.target.data_dir, "pattern": pattern})
        return answer["bytes"] / answer["seconds"] / MEGABYTE

    return Limit(
        "cold_mb_per_s", "evict the same files, read all partitions at once from start to end", run, goal=0.95
    )
