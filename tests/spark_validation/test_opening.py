"""What is opened of a run: the chosen topics, and nothing that was asked of others."""

import argparse
import socket
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from loadtest.brokers import NoBroker
from loadtest.client_settings import CLIENT_SETTINGS, java_settings
from loadtest.run import Deletion
from loadtest.settings import WrongSetting
from spark_validation.opening import open_evidence, opened_run, require_folders
from spark_validation.verdict import CannotJudge
from tests.spark_validation.world import clean
from tests.spark_validation.world_files import write


def test_a_run_is_narrowed_to_the_chosen_topics(tmp_path: Path) -> None:
    topics = [clean(name, number) for number, name in enumerate(("one", "two", "three"), 1)]
    for topic in topics:
        topic.deletions.append(Deletion(topic.name, 0, 1, True, 1))
    write(tmp_path, topics)
    run = opened_run(tmp_path / "run", "one,three")
    assert [topic.name for topic in run.topics] == ["one", "three"]
    assert set(run.ends) == {"one", "three"}
    assert {group: list(found) for group, found in run.committed.items()} == {
        "one-readers": ["one"],
        "two-readers": [],
        "three-readers": ["three"],
    }
    assert [one.topic for one in run.deletions] == ["one", "three"]
    assert len(opened_run(tmp_path / "run").topics) == 3


@pytest.mark.parametrize("chosen", ["two", "one,two", ","])
def test_a_topic_that_the_run_has_not_cannot_be_judged(tmp_path: Path, chosen: str) -> None:
    """By the others alone a run would seem clean."""
    write(tmp_path, [clean("one", 1)])
    with pytest.raises(CannotJudge, match="the run has no topic"):
        opened_run(tmp_path / "run", chosen)


def test_a_folder_without_a_run_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match=r"holds no run\.json"):
        opened_run(tmp_path)


def test_folders_without_a_log_cannot_be_judged(tmp_path: Path) -> None:
    write(tmp_path, [clean("calm", 1)])
    require_folders([str(tmp_path / "data")], ["calm"])
    with pytest.raises(CannotJudge, match="none is no directory"):
        require_folders([str(tmp_path / "data"), str(tmp_path / "none")], ["calm"])
    with pytest.raises(CannotJudge, match="no partition of other below"):
        require_folders([str(tmp_path / "data")], ["calm", "other"])


@pytest.mark.parametrize(
    ("bootstrap", "reason"),
    [
        (None, "no log to judge by"),
        ("127.0.0.1:1", "does not answer: .*refused"),
        ("127.0.0.1:99999", "does not answer: "),
        ("localhost", "--bootstrap localhost: expected HOST:PORT"),
        ("localhost:http", "--bootstrap localhost:http: expected HOST:PORT"),
    ],
)
def test_a_run_without_a_log_cannot_be_judged(tmp_path: Path, bootstrap: str | None, reason: str) -> None:
    write(tmp_path, [clean("calm", 1)])
    options = argparse.Namespace(
        history=tmp_path / "run", bootstrap=bootstrap, segments=None, earlier=None, topics=None
    )
    with pytest.raises(CannotJudge, match=reason):
        open_evidence(options)


def with_login(tmp_path: Path, **options: str) -> argparse.Namespace:
    write(tmp_path, [clean("calm", 1)])
    given = {"bootstrap": None, "segments": None, "earlier": None, "topics": None} | options
    return argparse.Namespace(history=tmp_path / "run", command_config=tmp_path / "login.properties", **given)


def test_a_file_of_client_settings_gives_the_connector_its_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Opened(Exception):
        """The session would begin here."""

    def no_session(**_: object) -> None:
        raise Opened

    asked: list[tuple[Path, str, bool]] = []

    def read(file: Path, target: str, java: bool) -> tuple[dict[str, str], dict[str, str]]:
        asked.append((file, target, java))
        return {}, {"security.protocol": "SASL_SSL"}

    monkeypatch.setenv(CLIENT_SETTINGS, "{}")
    monkeypatch.setattr("loadtest.client_settings.readers", [read])
    monkeypatch.setattr("spark_validation.session.spark_session", no_session)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        options = with_login(tmp_path, bootstrap=f"{address},127.0.0.1:1")
        with pytest.raises(Opened):
            open_evidence(options)
    assert asked == [(options.command_config, address, True)]
    assert java_settings() == {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize("failure", [NoBroker, WrongSetting])
def test_a_login_that_fails_leaves_the_run_unjudged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def read(*_: object) -> tuple[dict[str, str], dict[str, str]]:
        raise failure("the broker refuses these credentials")

    monkeypatch.setattr("loadtest.client_settings.readers", [read])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = with_login(tmp_path, bootstrap=f"127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(CannotJudge, match="refuses these credentials"):
            open_evidence(options)


def test_segment_files_need_no_login(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="used with --bootstrap"):
        open_evidence(with_login(tmp_path, segments=str(tmp_path / "data")))
