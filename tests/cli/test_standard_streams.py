"""Commands end with a code and without a traceback whatever their streams are: closed, full, or a
pipe without a reader."""

import os
import shlex
import subprocess
import sys

import pytest

from tests.cli.page_server import serving

KBROKER = shlex.join([sys.executable, "-m", "kbroker.cli.app"])


def shell(line: str, **arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        **arguments,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error_of_their_own(closed: str) -> None:
    for command, code in (("systemd", 0), ("topics list -b 127.0.0.1:1", 3), ("produce t -b 127.0.0.1:1", 3)):
        done = shell(f"{KBROKER} {command} {closed}")
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr
        assert done.returncode == code, (command, done)


def test_a_deletion_without_stdin_wants_a_yes() -> None:
    done = shell(f"{KBROKER} topics delete t -b 127.0.0.1:1 <&-")
    assert done.returncode == 2
    assert "Give --yes" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["systemd", "--help", "topics --help"])
def test_a_full_disk_is_one_line(command: str, unbuffered: str) -> None:
    done = shell(f"PYTHONUNBUFFERED={unbuffered} {KBROKER} {command} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["kbroker: cannot write: No space left on device"]


def test_a_name_that_the_encoding_lacks_is_escaped() -> None:
    page = (
        "# TYPE kbroker_info gauge\n"
        'kbroker_info{cluster_id="c",node_id="1",version="9.9"} 1.0\n'
        "# TYPE kbroker_group_lag_sum gauge\n"
        'kbroker_group_lag_sum{group="\u65e5\u672c"} 7\n'
    )
    with serving(lambda _: (200, page.encode())) as url:
        done = shell(f"PYTHONIOENCODING=ascii {KBROKER} status --url {url}")
    assert "Traceback" not in done.stderr
    assert "1 group with lag: \\u65e5\\u672c 7" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["systemd", "--help", "topics --help"])
def test_a_pipe_without_a_reader_ends_it_silently(command: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [*shlex.split(KBROKER), *command.split()]
    variables = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env=variables)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""
