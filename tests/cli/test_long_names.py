"""Names and values that no string of the protocol can hold are refused before anything is sent."""

import pytest

from kbroker.protocol.bounds import MAX_STRING_BYTES, MAX_TOPIC_CHARACTERS
from tests.cli.conftest import Shell

NOBODY = ("-b", "127.0.0.1:1")

TOPICS = [
    ("topics create @", "TOPIC"),
    ("topics describe @", "TOPIC"),
    ("topics delete @ --yes", "TOPIC"),
    ("topics delete-records @:0:1 --yes", "TOPIC:PARTITION:OFFSET"),
    ("topics copy @ other", "SOURCE"),
    ("produce @", "TOPIC"),
    ("consume @ -e", "TOPIC"),
    ("groups reset-offsets g --topic @:0,1 --to-latest", "--topic"),
    ("groups delete-offsets g @ --yes", "TOPIC[:PARTITIONS]"),
    ("offsets @", "TOPIC[:PARTITIONS]"),
    ("cluster log-dirs --topic @", "--topic"),
]

STRINGS = [
    ("topics create t -c retention.ms=@", "a value in --config"),
    ("topics create t -c @=1", "a name in --config"),
    ("consume t --group @", "--group"),
    ("consume t -X client.id=@", "a value in --property"),
    ("groups describe @", "GROUP"),
    ("groups delete @ --yes", "GROUP"),
    ("groups remove-members g --member @ --yes", "--member"),
    ("groups remove-members g --instance @ --yes", "--instance"),
    ("share-groups describe @", "GROUP"),
    ("configs describe topic @", "NAME"),
    ("configs alter topic t --set retention.ms=@", "a value in --set"),
    ("configs alter topic t --delete @", "--delete"),
    ("transactions describe @", "TRANSACTIONAL-ID"),
    ("acls list --topic @", "--topic"),
    ("acls list --principal @", "--principal"),
    ("acls add --principal User:a --topic t -o read --host @", "--host"),
    ("acls remove --user-principal @", "--user-principal"),
    ("users add @", "USER"),
    ("quotas list --user @", "--user"),
    ("tokens create --owner @", "--owner"),
    ("tokens create --renewer @", "--renewer"),
    ("client-metrics alter @ --metrics x", "NAME"),
    ("client-metrics alter m --metrics @", "--metrics"),
    ("client-metrics alter m --match client_id=@", "a value in --match"),
]


def words(line: str, name: str) -> list[str]:
    return [word.replace("@", name) for word in line.split()]


@pytest.mark.parametrize(("line", "shown"), TOPICS)
def test_a_longer_name_than_topics_have_is_refused(shell: Shell, line: str, shown: str) -> None:
    refused = shell(*words(line, "t" * (MAX_TOPIC_CHARACTERS + 1)), *NOBODY, code=2)
    assert refused.stderr == f"kbroker: {shown} has 250 characters; topic names have at most 249\n"
    assert "cannot connect" in shell(*words(line, "t" * MAX_TOPIC_CHARACTERS), *NOBODY, code=3).stderr


@pytest.mark.parametrize(("line", "shown"), STRINGS)
def test_a_longer_text_than_strings_are_is_refused(shell: Shell, line: str, shown: str) -> None:
    refused = shell(*words(line, "User:".ljust(MAX_STRING_BYTES + 1, "s")), *NOBODY, code=2)
    assert refused.stderr == f"kbroker: {shown} has 32768 bytes; Kafka's strings have at most 32767\n"


def test_the_longest_string_is_sent(shell: Shell) -> None:
    for line in ("groups describe @", "acls list --topic @", "client-metrics alter m --match client_id=@"):
        name = "s" * (MAX_STRING_BYTES - len("client_id="))
        assert "cannot connect" in shell(*words(line, name), *NOBODY, code=3).stderr


def test_bytes_count_and_not_characters(shell: Shell) -> None:
    refused = shell("groups", "describe", "ä" * 16384, *NOBODY, code=2)
    assert refused.stderr == "kbroker: GROUP has 32768 bytes; Kafka's strings have at most 32767\n"


def test_selectors_that_are_too_long_together_are_refused(shell: Shell) -> None:
    both = ("--match", "client_id=" + "s" * 20_000, "--match", "client_software_name=" + "s" * 20_000)
    assert "all of --match has" in shell("client-metrics", "alter", "m", *both, *NOBODY, code=2).stderr


def test_contents_of_records_have_no_such_bound(shell: Shell) -> None:
    assert "cannot connect" in shell("produce", "t", "-H", "name=" + "v" * 50_000, *NOBODY, code=3).stderr
