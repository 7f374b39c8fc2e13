"""Wrong command lines: each ends with one line that says what is wrong, and with the right exit
code."""

import socket
from pathlib import Path

import pytest

from kbroker.cli.setting_names import with_suggestion
from kbroker.config.close_names import suggestion
from tests.cli.conftest import Result, Shell, Target

NOBODY = ("-b", "127.0.0.1:1")

# (command line, exit code, a part of the line); nothing is asked of a broker before these end
WITHOUT_BROKER = [
    ("frobnicate", 2, "No such command 'frobnicate'"),
    ("topics frobnicate", 2, "see `kbroker topics --help`"),
    ("quotas describe", 2, "No such command 'describe': there are list, set, remove; see"),
    ("topics list --timeout", 2, "Option '--timeout' requires an argument; see `kbroker topics list --help`"),
    ("topics list --frob", 2, "No such option: --frob; see"),
    (
        "-b h:1 topics list",
        2,
        "No such option: -b: options of a command follow its name; see `kbroker --help`",
    ),
    ("topics --json list", 2, "No such option: --json: options of a command follow its name; see"),
    ("topics list [", 2, "is not a regular expression"),
    ("topics list a{99999999999}", 2, "is not a regular expression"),
    (f"topics list {'(' * 5000}", 2, "is not a regular expression"),
    ("topics list -b a..b:9092", 2, "'a..b:9092': not a valid host name"),
    (f"topics list -b {'a' * 64}:9092", 2, "not a valid host name"),
    ("topics list --timeout nan", 2, "--timeout"),
    ("topics list --timeout inf", 2, "--timeout"),
    ("topics list --timeout 0", 2, "--timeout"),
    ("topics list --timeout soon", 2, "--timeout"),
    ("topics list -b host:port", 2, "expected host:port"),
    ("topics list -b ,", 2, "expected host:port"),
    ("topics list -b http://localhost:9092", 2, "expected host:port"),
    ("topics list -b [::1", 2, "expected host:port"),
    ("topics list -b [::1]:1", 3, "cannot connect to [::1]:1"),
    ("topics list -b host:²", 2, "expected host:port"),
    ("topics list -b host:99999", 2, "expected host:port"),
    ("topics list --command-config /no-such-folder/file", 2, "/no-such-folder/file"),
    ("topics list --command-config /", 2, "Is a directory"),
    ("topics create", 2, "Missing argument"),
    ("topics create t -p 0", 2, "--partitions"),
    ("topics create t -p many", 2, "'--partitions' / '-p': 'many' is not a whole number; see"),
    ("topics list --rates soon", 2, "'--rates': 'soon' is not a number; see"),
    ("groups reset-offsets g --topic t --shift-by 1.5", 2, "'--shift-by': '1.5' is not a whole number; see"),
    ("topics create t -p 2147483648", 2, "--partitions"),
    ("topics create t -r 99999", 2, "--replication-factor"),
    ("topics create t -c retention.ms", 2, "expected key=value"),
    ("topics alter t", 2, "nothing to alter"),
    ("topics delete t", 2, "Give --yes"),
    ("acls list --principal alice", 2, "--principal alice: expected User:NAME"),
    ("acls list --user-principal etl", 2, "--user-principal etl: expected User:NAME"),
    ("acls remove --principal alice --yes", 2, "--principal alice: expected User:NAME"),
    ("acls add --principal alice --topic t -o read", 2, "--principal alice: expected User:NAME"),
    ("acls add --principal User:ops --user-principal etl -o create-tokens", 2, "expected User:NAME"),
    ("acls add --principal User: --topic t -o read", 2, "--principal User:: expected User:NAME"),
    (
        "acls add --principal User:a --topic t -o all --deny --host 10.0.0.0/8",
        2,
        "--host 10.0.0.0/8: expected an address or *",
    ),
    ("acls add --principal User:a --topic t -o read --host desk", 2, "--host desk: expected an address or *"),
    ("topics delete-records t", 2, "expected TOPIC:PARTITION:OFFSET"),
    ("topics delete-records t:4294967296:1 --yes", 2, "too large"),
    ("topics delete-records t:0:99999999999999999999 --yes", 2, "too large"),
    (f"topics delete-records t:0:{'9' * 5000} --yes", 2, "too large"),
    (f"topics delete-records t:{'9' * 5000}:1 --yes", 2, "too large"),
    (f"consume t --from {'9' * 5000}d", 2, "not a point in time"),
    ("topics delete-records t:0:5", 2, "Give --yes"),
    ("topics delete-records t:0:5 t:1:5 t:0:6 --yes", 2, "t:0 has two offsets, 5 and 6"),
    ("topics create t -c retention.ms=1 -c retention.ms=2", 2, "--config retention.ms has two values"),
    ("configs alter topic t --set a=1 --set a=2", 2, "--set a has two values"),
    ("configs alter topic t --set a=1 --delete a --append b=1", 2, "two changes of a: give only one"),
    ("topics alter t -c a=1 --delete-config a", 2, "two changes of a: give only one"),
    ("topics delete-records t:5-3 --before 1d --yes", 2, "5-3 ends before it begins"),
    ("groups delete-offsets g t:0,5-3 --yes", 2, "5-3 ends before it begins"),
    ("configs describe broker", 2, "--default"),
    ("configs describe topic --default", 2, "--default stands for all brokers"),
    ("configs describe broker 1 --default", 2, "without a name"),
    ("configs describe broker one", 2, "expected a broker id"),
    ("configs describe broker-logger one", 2, "expected a broker id"),
    ("configs describe planet mars", 2, "'ENTITY': 'planet' is not one of 'topic', 'broker'"),
    ("produce t -X bootstrap.servers=h:1", 2, "name the broker by -b HOST:PORT"),
    ("consume t -X metadata.broker.list=h:1", 2, "name the broker by -b HOST:PORT"),
    ("configs alter topic t", 2, "nothing to alter"),
    ("configs alter broker --default --set a", 2, "expected key=value"),
    ("consume", 2, "Missing argument"),
    ("consume t -o first", 2, "expected earliest, latest, a number"),
    ("consume t -o 99999999999999999999999", 2, "expected earliest, latest, a number"),
    ("consume t -o --5", 2, "expected earliest, latest, a number"),
    ("consume t -o ²", 2, "expected earliest, latest, a number"),
    ("consume t --from ²", 2, "not a point in time"),
    ("consume t -f %q", 2, "unknown field %q"),
    ("consume t -f \\q", 2, "unknown escape"),
    ("consume t -n 0", 2, "--max-messages"),
    ("consume t -p -1", 2, "--partition"),
    ("consume t --idle-timeout -1", 2, "--idle-timeout"),
    ("consume t --from yesterday-ish", 2, "not a point in time"),
    ("consume t --from 999999999999999999", 2, "not a point in time between 1970 and 9999"),
    ("consume t --from 99999999999999999999", 2, "not a point in time"),
    ("consume t --from 0001-01-01T00:00:00+23:00", 2, "not a point in time"),
    ("consume t --from 99999999999999999999d", 2, "not a point in time"),
    ("consume t --until junk", 2, "not a point in time"),
    ("consume t --from 10 --until 5", 2, "is not after --from 1970-01-01T00:00:00.010Z"),
    ("consume t --from 1h --until 1d", 2, "no record is between them"),
    ("consume t --tail 3 -n 2", 2, "only one of --tail and --max-messages"),
    ("consume t --json -f %s", 2, "only one of --json and --format"),
    ("consume t --from-beginning -o 5", 2, "give only one"),
    ("consume t --group g -p 1", 2, "a group continues where it was"),
    ("consume t -X fetch.wait.max.ms", 2, "expected key=value"),
    ("consume t --isolation none", 2, "--isolation"),
    ("consume t --registry localhost", 2, "expected http://HOST:PORT"),
    ("consume t --registry http://h:x/", 2, "expected http://HOST:PORT"),
    ("consume t --registry http://a\x7fb/", 2, "expected http://HOST:PORT"),
    ("consume t --decode-keys", 2, "needs --registry"),
    ("produce", 2, "Missing argument"),
    ("produce t -z brotli", 2, "--compression"),
    ("produce t -H =v", 2, "expected name=value"),
    ("produce t --json -K :", 2, "it does not allow --key-separator"),
    ("produce t -p 2147483648", 2, "--partition"),
    ("groups describe", 2, "name groups or give --all"),
    ("groups delete g", 2, "Give --yes"),
    ("groups list --state Emtpy", 2, "expected one of PreparingRebalance"),
    ("groups list --type shared", 2, "expected one of classic, consumer, share, streams"),
    ("groups reset-offsets g --topic t --by-duration 99999999w", 2, "too long a duration"),
    ("transactions list --state open", 2, "expected one of Empty, Ongoing"),
    ("transactions list --producer-id 99999999999999999999", 2, "--producer-id"),
    ("transactions list --longer-than 99999999w", 2, "too long a duration"),
    ("share-groups reset-offsets g --topic t", 2, "give exactly one of --to-earliest"),
    ("share-groups reset-offsets g --to-latest", 2, "either --topic or --all-topics"),
    ("share-groups delete-offsets g t", 2, "Give --yes"),
    ("quotas set", 2, "Missing argument"),
    ("quotas set --user a producer_byte_rate=nan", 2, "producer_byte_rate=nan: expected a number"),
    ("acls add --principal User:a -o read", 2, "--topic"),
    ("acls add --topic t -o fly", 2, "--operation"),
    (
        "acls add --principal User:a --topic t -o cluster-action",
        2,
        "--topic has no operation cluster-action: it has all, read, write",
    ),
    ("acls add --principal User:a --producer --group g", 2, "give --topic"),
    ("acls add --principal User:a --consumer --topic t", 2, "give --topic and --group"),
    ("acls add --principal User:a --consumer --group g", 2, "give --topic and --group"),
    ("acls remove", 2, "--principal"),
    ("users add x --password-file /no-such-folder/file", 2, "cannot read /no-such-folder/file: No such file"),
    ("users add x --password-file /proc/self/exe", 2, "not UTF-8 at byte"),
    ("users add x", 2, "give --password-file"),
    ("users add x --iterations 5", 2, "--iterations"),
    ("log dump /no-such-folder/file", 2, "no such file or folder"),
    ("backup s3://", 2, "expected s3://BUCKET/PREFIX"),
    ("backup ftp://host/x", 2, "ftp://host/x: expected a folder or s3://BUCKET/PREFIX"),
    ("backup /etc", 2, "has other files"),
    ("backup /etc/hostname", 2, "is not a folder"),
    ("backups verify /", 2, "/: no backup here; `kbroker backup /` takes one"),
    ("restore /no-such-folder x", 2, "/no-such-folder: no backup here"),
    ("docs bakcup", 2, "did you mean backup? `kbroker docs` lists the pages"),
    ("log dump /", 2, "no file of a log in this folder"),
    ("status --url http://127.0.0.1:none/", 2, "--url"),
    ("status --url ftp://127.0.0.1/", 2, "expected http://HOST:PORT/"),
    (
        "status --url http://127.0.0.1:1/",
        3,
        "Connection refused; is the broker running, and is --url its kbroker.http.listen?",
    ),
    ("status --url http://a..b/", 2, "not a valid host name"),
    ("status --url http://a\x7fb/", 2, "URL can't contain control characters"),
    ("status --max-lag -1", 2, "--max-lag"),
    ("offsets t --at junk", 2, "not a point in time"),
    ("topics list", 3, "cannot connect to 127.0.0.1:1"),
]

# those that the broker, or what is known of its topics, finds
WITH_BROKER = [
    ("topics create a/b", 1, "INVALID_TOPIC_EXCEPTION"),
    ("topics create t1 -c retention.mss=5", 1, "did you mean retention.ms?"),
    ("topics create t1 -c retention.ms=abc", 1, "Not a number"),
    ("topics describe nosuch", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("topics delete nosuch --yes", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("configs alter topic nosuch --set retention.ms=1", 1, "nosuch"),
    (
        "configs alter topic here --delete retention.mss",
        1,
        "no setting retention.mss; did you mean retention.ms?",
    ),
    ("configs alter broker --default --delete no.such", 1, "all brokers: no setting no.such"),
    ("topics alter here --delete-config no.such", 1, "topic here: no setting no.such"),
    ("topics delete-records here:7:1 --yes", 1, "here has no partition 7"),
    ("quotas remove --user nosuch producer_byte_rate", 1, "no quotas are set for it"),
    ("configs describe broker --default -k no.such", 1, "no setting no.such"),
    ("configs alter broker --default --set log.cleaner.threads=x", 1, "Not a number"),
    ("configs describe broker 99", 1, "there is no broker 99; brokers: "),
    ("configs alter broker-logger 99 --set kbroker.control=DEBUG", 1, "there is no broker 99"),
    ("cluster api-versions --broker 99", 1, "there is no broker 99"),
    ("consume nosuch -e", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("consume here -p 5 -e", 1, "no partition here-5"),
    ("consume here -o 9223372036854775807", 1, "has no offset"),
    ("consume here -X foo=bar", 2, 'No such configuration property: "foo"'),
    ("offsets here:0-99999999999", 2, "too many partitions"),
    ("offsets here:7", 1, "has no partition 7"),
    ("groups describe nosuch", 1, "GROUP_ID_NOT_FOUND"),
    ("share-groups describe nosuch", 1, "GROUP_ID_NOT_FOUND"),
    ("share-groups delete nosuch --yes", 1, "GROUP_ID_NOT_FOUND"),
    ("groups delete nosuch --yes", 1, "GROUP_ID_NOT_FOUND"),
    ("transactions describe nosuch", 1, "kbroker: nosuch: TRANSACTIONAL_ID_NOT_FOUND"),
    ("cluster log-dirs --partitions --topic nosuch", 1, "nosuch: UNKNOWN_TOPIC_OR_PARTITION"),
    ("produce here /proc/self/mem", 2, "cannot read /proc/self/mem: Input/output error"),
]


def says_in_one_line(done: Result, part: str) -> None:
    assert "Traceback" not in done.stderr
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbroker: ")
    assert part in line


def test_there_are_sixty_of_them() -> None:
    assert len(WITHOUT_BROKER) >= 60


@pytest.mark.parametrize(("line", "code", "part"), WITHOUT_BROKER, ids=lambda value: str(value)[:50])
def test_a_wrong_command_line_ends_with_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, line: str, code: int, part: str
) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", NOBODY[1])
    says_in_one_line(shell(*line.split(), code=code), part)


def test_an_empty_address_is_not_the_default_one(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", NOBODY[1])
    says_in_one_line(shell("topics", "list", "-b", "", code=2), "--bootstrap is empty")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("consume @", "TOPIC"),
        ("consume t --group @", "--group"),
        ("produce @", "TOPIC"),
        ("groups describe billing @", "GROUP"),
        ("groups reset-offsets g --topic @ --to-latest", "--topic"),
        ("share-groups describe @", "GROUP"),
        ("topics describe @", "TOPIC"),
        ("topics delete @ --yes", "TOPIC"),
        ("transactions describe @", "TRANSACTIONAL-ID"),
        ("users remove @ --yes", "USER"),
        ("configs describe topic @", "NAME"),
    ],
)
def test_an_empty_name_is_refused(shell: Shell, line: str, name: str) -> None:
    words = ["" if word == "@" else word for word in line.split()]
    says_in_one_line(shell(*words, "-b", NOBODY[1], code=2), f"kbroker: {name} is empty")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sasl.mechanism=PLAIN", "kbroker: sasl.username and sasl.password must be set"),
        ("sasl.username=anna", "sasl.mechanism is GSSAPI, the default: set PLAIN, SCRAM-SHA-256,"),
        ("listeners=PLAINTEXT://:9092", "server.properties: no client setting listeners; the file must have"),
        ("sasl.usrname=anna", "no client setting sasl.usrname; did you mean sasl.username?"),
    ],
)
def test_a_wrong_file_of_client_settings_is_explained(
    shell: Shell, tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\n{text}\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        done = shell("topics", "list", "-b", address, "--command-config", file, code=2)
    says_in_one_line(done, reason)


@pytest.mark.parametrize("command", ["status", "top --once", "clients list"])
def test_an_empty_url_is_not_the_default_one(shell: Shell, command: str) -> None:
    says_in_one_line(shell(*command.split(), "--url", "", code=2), "--url is empty")


@pytest.mark.parametrize("option", ["--delimiter", "-D", "--key-separator", "--headers-separator"])
def test_a_separator_of_input_is_not_empty(shell: Shell, option: str) -> None:
    done = shell("produce", "t", option, "", "-b", NOBODY[1], stdin=b"a\n", code=2)
    says_in_one_line(done, "is empty: nothing separates then")


@pytest.mark.parametrize("command", ["backups list", "backups verify", "restore"])
def test_an_empty_place_of_backups_is_refused(shell: Shell, command: str, tmp_path: Path) -> None:
    target = (tmp_path / "data",) if command == "restore" else ()
    says_in_one_line(shell(*command.split(), "", *target, code=2), "is empty; is a shell variable not set?")


def test_an_empty_format_is_refused(shell: Shell) -> None:
    says_in_one_line(shell("consume", "t", "-f", "", "-b", NOBODY[1], code=2), "--format is empty")


def test_an_option_that_names_nothing_may_be_empty(shell: Shell) -> None:
    assert "cannot connect" in shell("consume", "t", "--separator", "", "-b", NOBODY[1], code=3).stderr


@pytest.fixture(scope="module")
def here(target: Target) -> None:
    """A topic of one partition."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": target.bootstrap})  # what it was asked for is lost with it
    admin.create_topics([NewTopic("here", 1, 1)])["here"].result()


@pytest.mark.compat
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("line", "code", "part"), WITH_BROKER, ids=lambda value: str(value)[:50])
def test_a_refusal_of_the_broker_ends_with_one_line(cli: Shell, line: str, code: int, part: str) -> None:
    says_in_one_line(cli(*line.split(), code=code), part)


@pytest.mark.compat
def test_a_wrong_line_of_input_is_named(cli: Shell, topic: str) -> None:
    for wrong in (
        b"{",
        b"[]",
        b'{"value": "b", "headers": [1]}',
        b'{"value_base64": "*"}',
        b'{"timestamp": "now"}',
    ):
        done = cli("produce", topic, "--json", "-q", stdin=b'{"value": "a"}\n' + wrong + b"\n", code=2)
        says_in_one_line(done, "line 2: ")
        assert done.stderr.endswith("; 1 record before it written\n")
    says_in_one_line(cli("produce", topic, "--json", stdin=b"{", code=2), "; nothing written")


@pytest.mark.compat
def test_a_record_that_a_broker_refuses_is_explained(cli: Shell, topic: str) -> None:
    done = cli("produce", "bad name", stdin=b"a\n", code=1)
    says_in_one_line(done, "not written: 1 of 1 record: INVALID_TOPIC_EXCEPTION: Invalid topic")
    cli("topics", "alter", topic, "-c", "cleanup.policy=compact")
    says_in_one_line(cli("produce", topic, stdin=b"a\n", code=1), "; a compacted topic needs keys")


@pytest.mark.compat
def test_a_topic_that_is_named_twice_is_created_once(cli: Shell, topic: str) -> None:
    assert cli("topics", "create", f"{topic}-2", f"{topic}-2").stderr == f"{topic}-2: created\n"


@pytest.mark.compat
def test_to_the_end_without_a_start_means_from_the_beginning(cli: Shell, topic: str) -> None:
    summary = cli("produce", topic, stdin=b"a\nb\n").stderr
    assert summary.startswith("2 records, 2 B in ")
    assert sorted(cli("consume", topic, "-e", "-q").lines) == ["a", "b"]
    assert cli("consume", topic, "-e", "-q", "-o", "latest").lines == []


@pytest.mark.compat
def test_settings_of_all_brokers_are_set_shown_and_taken_back(cli: Shell) -> None:
    cli("configs", "alter", "broker", "--default", "--set", "log.cleaner.threads=2")
    shown = {
        entry["name"]: entry for entry in cli("configs", "describe", "broker", "--default", "--json").json
    }
    assert (shown["log.cleaner.threads"]["value"], shown["log.cleaner.threads"]["source"]) == (
        "2",
        "all brokers",
    )
    cli("configs", "alter", "broker", "--default", "--delete", "log.cleaner.threads")
    left = cli("configs", "describe", "broker", "--default", "--json").json
    assert "log.cleaner.threads" not in {entry["name"] for entry in left}
    remark = cli(
        "configs", "alter", "broker", "--default", "--set", "log.cleaner.thread=2", "--validate-only"
    ).stderr
    assert "log.cleaner.thread is not a setting of kbroker; did you mean log.cleaner.threads?" in remark


def test_a_close_name_is_suggested_and_a_far_one_is_not() -> None:
    assert with_suggestion("Unknown topic config name: retention.mss").endswith(
        "; did you mean retention.ms?"
    )
    assert suggestion("x", {"retention.ms"}) == ""
    assert with_suggestion("Invalid value abc") == "Invalid value abc"


def test_nothing_was_written_by_a_wrong_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "ls.bin"
    file.write_bytes(b"\x7fELF\xff\xfe")
    says_in_one_line(shell("topics", "list", "--command-config", file, code=2), "not UTF-8")
    says_in_one_line(shell("log", "dump", file, code=2), "not a file of a log directory")


@pytest.mark.parametrize("line", ["topics describe \udcff", "produce t -H \udcff=a", "produce t -K \udcff"])
def test_an_argument_that_is_not_utf8_is_refused(shell: Shell, line: str) -> None:
    says_in_one_line(shell(*line.split(), code=2), "is not UTF-8")
