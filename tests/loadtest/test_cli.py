"""The command line of the load test: what is wrong is one line, before anything is started."""

import socket
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner, Result

from loadtest.cli import DEFAULT, _code_of, app, first_line
from loadtest.faults.schedule import KINDS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("plan", "--seconds", "inf"), "--seconds inf: allowed is more than 0"),
        (("plan", "--seconds", "nan"), "--seconds nan"),
        (("plan", "--faults", "quake"), "no fault quake; there are: all, none, kill"),
        (("run", "--rate", "inf"), "--rate inf"),
        (("overhead", "--seconds", "-1"), "--seconds -1"),
        (("overhead", "--record-bytes", "big"), "two with a dash"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_64(arguments: tuple[str, ...], text: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 64
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbroker loadtest: ")
    assert text in line


@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_target_that_is_no_broker_ends_a_run_before_it_makes_a_folder(
    tmp_path: Path, banner: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(banner)

        thread = threading.Thread(target=serve)
        thread.start()
        target = f"127.0.0.1:{server.getsockname()[1]}"
        done = run("run", "--target", target, "--folder", str(tmp_path / "run"))
        thread.join()
    assert (done.exit_code, done.stdout) == (69, "")
    assert done.stderr == f"kbroker loadtest: {target} does not speak the Kafka protocol\n"
    assert not (tmp_path / "run").exists()


def test_a_file_of_settings_that_is_missing_ends_a_run_before_it_makes_a_folder(tmp_path: Path) -> None:
    missing, folder = str(tmp_path / "missing"), tmp_path / "run"
    done = run("run", "--target", "127.0.0.1:1", "--command-config", missing, "--folder", str(folder))
    assert (done.exit_code, done.stdout, folder.exists()) == (64, "", False)


def test_an_error_of_the_client_library_is_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer of the controller"))

    assert _code_of(fails) == 69
    assert capsys.readouterr().err == "kbroker loadtest: no answer of the controller\n"


def test_a_measurement_has_a_pair_of_turns_at_least() -> None:
    assert run("overhead", "--pairs", "0").exit_code == 64


def test_the_help_lists_every_kind_of_fault() -> None:
    shown = "".join(run("run", "--help").stdout.replace("\u2502", " ").split())
    assert ",".join(KINDS) in shown


def test_a_plan_of_a_long_run_ends_before_it() -> None:
    lines = run("plan", "--seconds", "600").stdout.splitlines()
    assert len(lines) > 50
    assert float(lines[-1].split()[0]) < 600


def test_a_plan_without_faults_says_so() -> None:
    for options, reason in (
        (("--faults", "none"), "no faults in this time"),
        (("--faults", "kill", "--target", "h:1"), "faults that need access to its host are left out"),
    ):
        done = run("plan", *options)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (0, "", 1)
        assert reason in done.stderr


def test_a_run_with_one_fault_has_no_faults() -> None:
    assert first_line(DEFAULT, 1).startswith("seed 1: 1 fault in 60 s; settings: ")
    assert first_line(DEFAULT, 0).startswith("seed 1: 0 faults in 60 s; settings: ")
