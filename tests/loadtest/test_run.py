"""What is known of a run besides its rows can be read back, also after a torn end."""

from pathlib import Path

import pytest

from loadtest.run import (
    PartitionEnds,
    ProducerClient,
    Run,
    Topic,
    load_intents,
    load_producers,
    load_run,
    save_client,
    save_run,
)


def example() -> Run:
    return Run(7, 1, "127.0.0.1:9092", "kbroker", 5, {"rate": 1}, [Topic("t", 2, "plain")])


def test_a_run_comes_back(tmp_path: Path) -> None:
    run = example()
    run.ends = {"t": {"0": PartitionEnds(0, 10, 9)}}
    run.committed = {"g": {"t": {"0": 4}}}
    save_run(tmp_path, run)
    assert load_run(tmp_path) == run


def test_another_format_is_refused(tmp_path: Path) -> None:
    run = example()
    run.format = 99
    save_run(tmp_path, run)
    with pytest.raises(ValueError, match="99"):
        load_run(tmp_path)


def test_clients_come_back_in_order(tmp_path: Path) -> None:
    for number in (2, 1):
        client = ProducerClient(number, "t", "all", True, None, "lz4", 100, 1, 5)
        save_client(tmp_path, f"p{number:06d}", client)
    assert [client.producer for client in load_producers(tmp_path)] == [1, 2]


def test_a_torn_last_intent_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "intents").mkdir()
    whole = '{"producer": 1, "first_seq": 0, "last_seq": 9, "at_ns": 5}\n'
    (tmp_path / "intents" / "p000001.jsonl").write_text(whole + '{"producer": 1, "fir')
    assert load_intents(tmp_path) == [{"producer": 1, "first_seq": 0, "last_seq": 9, "at_ns": 5}]
