"""A move copies every topic, or says which it leaves behind."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed
from kbroker.cli.log_dirs import DescribedLog, DescribedLogDir
from kbroker.cli.mirror.plan import Plan, PlannedTopic, _refuse_hidden, choose, is_outdated
from tests.cli.conftest import Shell, Target
from tests.peer.eventually import eventually


class Source:
    """A cluster whose user may describe these topics."""

    timeout_s = 1.0

    def __init__(self, visible: list[str]) -> None:
        self.visible = visible

    def admin(self) -> Any:
        return SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=self.visible))


def test_a_user_who_may_not_describe_all_topics_does_not_move_some(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tuple(DescribedLog(name, 0, 1, 0, False) for name in ("a", "b", "__consumer_offsets"))
    log_dir = DescribedLogDir(1, "/x", 0, None, None, False, logs)
    monkeypatch.setattr("kbroker.cli.mirror.plan.all_log_dirs", lambda _: [log_dir])
    monkeypatch.setattr("time.sleep", lambda _: None)
    source: Any = Source(["a"])
    with pytest.raises(
        CommandFailed, match="may not describe b: they would stay behind; name the topics with --topic"
    ):
        _refuse_hidden(source, ["a"])
    _refuse_hidden(source, ["a", "b"])  # as they were listed before; b has been deleted
    source.visible = ["a", "b"]  # b is new
    _refuse_hidden(source, ["a"])


def test_the_log_of_a_topic_that_was_deleted_a_moment_ago_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that is deleted during a move does not end it."""
    logs = [DescribedLog(name, 0, 1, 0, False) for name in ("a", "gone")]
    answers = [tuple(logs), tuple(logs), tuple(logs[:1])]
    monkeypatch.setattr(
        "kbroker.cli.mirror.plan.all_log_dirs",
        lambda _: [DescribedLogDir(1, "/x", 0, None, None, False, answers.pop(0))],
    )
    monkeypatch.setattr("time.sleep", lambda _: None)
    source: Any = Source(["a"])
    _refuse_hidden(source, ["a"])
    assert not answers


def test_a_user_without_rights_on_the_cluster_may_name_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a source of other people, nothing else may be possible."""

    def refused(_: object) -> list[DescribedLogDir]:
        raise CommandFailed("log dirs need Describe on the cluster", ExitCode.UNREACHABLE)

    monkeypatch.setattr("kbroker.cli.mirror.plan.all_log_dirs", refused)
    source: Any = Source(["a"])
    with pytest.raises(
        CommandFailed, match="need Describe on the cluster; or name the topics with --topic"
    ) as found:
        _refuse_hidden(source, ["a"])
    assert found.value.code is ExitCode.UNREACHABLE


def test_chosen_topics_exist_and_are_not_internal() -> None:
    there = ["a", "b", "b.internal", "__consumer_offsets"]
    remark = "left out, because MirrorMaker 2 treats it as internal: b.internal"
    assert choose(there, []) == (["a", "b"], [remark])
    assert choose(there, ["b"]) == (["b"], [])
    with pytest.raises(CommandFailed, match="has no topic c"):
        choose(there, ["c"])
    with pytest.raises(CommandFailed, match=r"treats b\.internal as internal"):
        choose(there, ["b.internal"])


@pytest.mark.parametrize("name", ["heartbeats", "iot.heartbeats", "device-heartbeats", "__audit", ".hidden"])
def test_a_topic_that_the_engine_does_not_copy_is_named(name: str) -> None:
    """Also one whose copy would have another name: the comparison would fail at the end."""
    remark = f"left out, because MirrorMaker 2 treats it as internal: {name}"
    internal = ["__consumer_offsets", "__share_group_state", "__transaction_state"]
    assert choose(["a", "a.replica", name, *internal], []) == (["a", "a.replica"], [remark])


def test_a_topic_that_was_deleted_and_created_again_is_found_by_its_id(
    cli: Shell, target: Target, topic: str
) -> None:
    """With as many partitions as before."""
    broker = Connection(target.bootstrap, {}, 60)
    plan = Plan({topic: PlannedTopic(topic, 3, {})}, [], 0, 1)
    eventually(lambda: topic in broker.admin().list_topics(timeout=10).topics)
    assert not is_outdated(plan, broker, [topic])
    cli("topics", "delete", topic, "--yes")
    eventually(lambda: topic not in broker.admin().list_topics(timeout=10).topics)
    cli("topics", "create", topic, "--partitions", 3)
    eventually(lambda: topic in broker.admin().list_topics(timeout=10).topics)
    with pytest.raises(CommandFailed, match=f"{topic} was deleted and created again"):
        is_outdated(plan, broker, [topic])
