"""Line-based programs as writers and readers of records: kcat, and the console tools of Apache
Kafka."""

import os
import shutil
import subprocess

import pytest

from tests.compat.clients.record import Headers, Record
from tests.peer.tools import java_command

TIMEOUT_S = 180
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def run(command: list[str], stdin: bytes = b"") -> bytes:
    """Runs a program to its end; gives what it printed. Fails on a code other than 0."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]!r} {done.stderr[-2000:]!r}"
    return done.stdout


class Kcat:
    """kcat. One run per set of headers, since it writes the same ones with every record; an empty
    key is null."""

    @staticmethod
    def path() -> str:
        found = shutil.which("kcat") or shutil.which("kafkacat")
        if found is None:
            missing = "kcat is not installed (Debian: apt install kcat)"
            assert not os.environ.get("CI"), missing
            pytest.skip(missing)
        return found

    @staticmethod
    def write(bootstrap: str, topic: str, codec: str, records: list[Record]) -> list[Record]:
        own = [r for r in records if r.is_text and r.timestamp is None and r.value and b"\n" not in r.value]
        own = [r for r in own if r.key != b"" and all(value for _, value in r.headers)]
        for record in own:
            headers = [
                w for name, value in record.headers for w in ("-H", f"{name}={(value or b'').decode()}")
            ]
            line = (b"" if record.key is None else record.key + b"<:>") + (record.value or b"")
            command = [Kcat.path(), "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-z", codec]
            run([*command, "-Z", *(["-K", "<:>"] if record.key is not None else []), *headers], line)
        return own

    @staticmethod
    def read(bootstrap: str, topic: str, count: int) -> list[Record]:
        form = r"%K %S %T %h\n%k%s"
        output = run(
            [
                *(Kcat.path(), "-C", "-q", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning"),
                *("-c", str(count), "-f", form),
            ]
        )
        found: list[Record] = []
        while output:
            # Header values may hold line feeds of their own: here they hold none but in one known
            # value.
            lengths, _, rest = output.partition(b" ")
            size, _, rest = rest.partition(b" ")
            time, _, rest = rest.partition(b" ")
            end = rest.index(b"\n")
            headers, body = rest[:end], rest[end + 1 :]
            key_size, value_size = int(lengths), int(size)
            key = None if key_size < 0 else body[:key_size]
            body = body[max(key_size, 0) :]
            value = None if value_size < 0 else body[:value_size]
            output = body[max(value_size, 0) :]
            found.append(Record(key, value, Kcat._headers(headers), int(time)))
        return found

    @staticmethod
    def _headers(text: bytes) -> Headers:
        pairs = [pair.partition(b"=") for pair in text.split(b",") if pair]
        return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)


class Console:
    """kafka-console-producer and kafka-console-consumer of Apache Kafka. A line is a record."""

    @staticmethod
    def write(bootstrap: str, topic: str, codec: str, records: list[Record]) -> list[Record]:
        own = [r for r in records if r.is_text and r.timestamp is None and len(r.value or b"") < 10_000]
        own = [r for r in own if all(value is not None for _, value in r.headers)]

        def line(record: Record) -> bytes:
            headers = b"<,>".join(name.encode() + b"<=>" + (value or b"") for name, value in record.headers)
            parts = [headers or b"NULL", record.key, record.value]
            return b"<|>".join(b"NULL" if part is None else part for part in parts)

        properties = {
            "parse.headers": "true",
            "parse.key": "true",
            "headers.delimiter": "<|>",
            "headers.separator": "<,>",
            "headers.key.separator": "<=>",
            "key.separator": "<|>",
            "null.marker": "NULL",
        }
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
        for key, value in properties.items():
            arguments += ["--reader-property", f"{key}={value}"]
        run(java_command(CONSOLE_PRODUCER, *arguments), b"\n".join(map(line, own)) + b"\n")
        return own

    @staticmethod
    def read(bootstrap: str, topic: str, count: int) -> list[Record]:
        properties = {
            "print.timestamp": "true",
            "print.headers": "true",
            "print.key": "true",
            "print.value": "true",
            "key.separator": "<|>",
            "line.separator": "<END>\n",
            "headers.separator": "<,>",
            "null.literal": "NULL",
        }
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "0"]
        arguments += ["--max-messages", str(count), "--timeout-ms", "30000"]
        for key, value in properties.items():
            arguments += ["--formatter-property", f"{key}={value}"]
        lines = run(java_command(CONSOLE_CONSUMER, *arguments)).split(b"<END>\n")
        return [Console._record(line) for line in lines[:-1]]

    @staticmethod
    def _record(line: bytes) -> Record:
        time, headers, key, value = line.split(b"<|>")
        pairs = [] if headers == b"NO_HEADERS" else [pair.partition(b":") for pair in headers.split(b"<,>")]
        return Record(
            None if key == b"NULL" else key,
            None if value == b"NULL" else value,
            tuple((name.decode(), None if text == b"NULL" else text) for name, _, text in pairs),
            int(time.rpartition(b":")[2]),
        )
