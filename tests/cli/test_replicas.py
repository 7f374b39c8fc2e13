"""Leaders are elected, replicas reassigned; what the broker refuses is one line for each
partition."""

from tests.cli.conftest import Shell


def test_an_election_that_is_not_needed_is_no_error(cli: Shell, topic: str) -> None:
    for scopes in ((), (topic,), (f"{topic}:0,2",)):
        done = cli("topics", "elect-leaders", *scopes)
        assert "every partition has its preferred leader" in done.stderr
    assert "no partition 9" in cli("topics", "elect-leaders", f"{topic}:9", code=1).stderr
    unclean = cli("topics", "elect-leaders", topic, "--unclean", code=2)
    assert "Give --yes" in unclean.stderr


def test_replicas_go_to_brokers_that_exist(cli: Shell, topic: str) -> None:
    (here,) = {p["leader"] for p in cli("topics", "describe", topic, "--json").json[0]["partitions"]}
    done = cli("topics", "reassign", f"{topic}:0,1", "--replicas", here)
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [f"{topic}-0", f"{topic}-1"]
    assert cli("topics", "reassignments", "--json").json == []
    refused = cli("topics", "reassign", topic, "--replicas", here + 77, code=1)
    assert len(refused.stderr.splitlines()) == 3
    assert f"{topic}-0: INVALID_REPLICA_ASSIGNMENT" in refused.stderr
    assert "NO_REASSIGNMENT_IN_PROGRESS" in cli("topics", "reassign", topic, "--cancel", code=1).stderr


def test_a_reassignment_says_where_to(shell: Shell) -> None:
    assert "either --replicas or --cancel" in shell("topics", "reassign", "t", code=2).stderr
    both = shell("topics", "reassign", "t", "--replicas", "1", "--cancel", code=2)
    assert "either --replicas or --cancel" in both.stderr
    for wrong in ("", "one", "1,,2", "-1", "4294967296"):
        assert "expected broker ids" in shell("topics", "reassign", "t", f"--replicas={wrong}", code=2).stderr
