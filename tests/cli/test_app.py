"""The program as a whole: it starts light, teaches, and its exit codes mean what they say."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import typer.main

from kbroker.cli.app import _hide_secrets
from kbroker.cli.commands import application
from kbroker.cli.docs import page
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed
from tests.cli.conftest import Shell

HEAVY = ("confluent_kafka", "kafka", "numba", "numpy", "kbroker.kernels.jit", "kbroker.supervisor")


LOG_DUMP = 220
"""Modules beyond the standard library and numpy of a `kbroker log dump`, which takes half a second
with them. All commands are among them, since each brings its options; what only one command uses is
imported by that command."""
TOOLS = (("tune",), ("loadtest",), ("judge",))  # programs with a help of their own: test_tools.py


def commands() -> list[tuple[str, ...]]:
    root = typer.main.get_command(application())
    found: list[tuple[str, ...]] = [()]
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        found.append((name,))
        found += [(name, inner) for inner in getattr(command, "commands", ())]
    return found


def test_help_loads_no_client_library_and_no_kernel() -> None:
    program = (
        "import sys; from kbroker.cli.app import run; code = run(['--help']); "
        f"print([m for m in {HEAVY!r} if m in sys.modules], code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[] 0"
    assert "serve" in done.stdout


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("-X", "sasl.password=s3cret"), "-X sasl.password=[hidden]"),
        (("-Xsasl.username=a,sasl.password=s3cret x",), "-Xsasl.username=a,sasl.password=[hidden]"),
        (("--set", "SSL.key.password = s3cret\ns3cret"), "--set SSL.key.password =[hidden]"),
        (("--url", "http://ann:s3cret@host:9404/"), "--url http://[hidden]@host:9404/"),
    ],
)
def test_passwords_of_the_command_line_are_hidden_from_other_users(
    words: tuple[str, ...], shown: str
) -> None:
    """In /proc, which all users of the host can read."""
    program = (
        "import sys; from pathlib import Path; from kbroker.cli.app import run; run();"
        "print(Path('/proc/self/cmdline').read_text().replace('\\0', ' '))"
    )
    command = [sys.executable, "-c", program, "unknown", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "s3cret" not in done.stdout
    assert shown in done.stdout


def test_a_command_line_without_a_password_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "setproctitle", None)
    _hide_secrets(["topics", "list", "-X", "socket.timeout.ms=5", "a@b"])


def test_log_dump_takes_kernels_from_the_image_not_from_numba(tmp_path: Path) -> None:
    if subprocess.run(
        [sys.executable, "-c", "from kbroker.kernels import image; exit(not image.use())"]
    ).returncode:
        pytest.skip("no image of compiled kernels here")
    (tmp_path / "00000000000000000000.log").touch()
    program = (
        "import sys; from kbroker.cli.app import run; "
        f"code = run(['log', 'dump', {str(tmp_path)!r}]); print('numba' in sys.modules, code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False 0"


def test_log_dump_imports_no_more_modules_than_it_did(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").touch()
    program = (
        "import json, sys; from kbroker.cli.app import run; "
        f"run(['log', 'dump', {str(tmp_path)!r}]); print(json.dumps(list(sys.modules)), file=sys.stderr)"
    )
    plain = os.environ | {"KBROKER_NO_KERNELS": "1"}  # nothing depends on an image
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=True)
    others = sys.stdlib_module_names | {"numpy", "llvmlite", "_distutils_hack", "__main__"}
    found = {name for name in json.loads(done.stderr) if name.partition(".")[0] not in others}
    assert len(found) <= LOG_DUMP, len(found)


@pytest.mark.parametrize("command", [one for one in commands() if one[:1] not in TOOLS], ids=" ".join)
def test_every_command_teaches(shell: Shell, command: tuple[str, ...]) -> None:
    text = shell(*command, "--help").text
    assert "Usage: kbroker" in text
    if len(command) == 2 or command in (("serve",), ("produce",), ("consume",), ("offsets",)):
        assert "Examples" in text
        assert f"kbroker {' '.join(command)}" in text


def test_every_option_has_a_help_text() -> None:
    root = typer.main.get_command(application())
    leaves = [*root.commands.values()]  # type: ignore[attr-defined]
    leaves += [inner for leaf in leaves for inner in getattr(leaf, "commands", {}).values()]
    silent = [
        (leaf.name, parameter.opts)
        for leaf in leaves
        for parameter in leaf.params
        if parameter.param_type_name == "option" and not parameter.help
    ]
    assert not silent


def test_the_page_lists_every_command() -> None:
    text = page()
    for command in commands():
        assert f"# kbroker {' '.join(command)}".rstrip() in text or not command
    for code in ExitCode:
        assert f"| {code.value} | {code.meaning} |" in text


def test_the_page_lists_the_options_of_the_tools() -> None:
    sections = {part.partition("\n")[0]: part for part in page().split("# kbroker ")}
    assert "| `--nic BITS/S` | Network speed: 10Gbit/s. | this host's |" in sections["tune size"]
    assert "| `--abort-share NUMBER` |" in sections["loadtest run"]
    assert "| `--folder FOLDER` |" in sections["loadtest run"]
    assert "| `--history FOLDER` |" in sections["judge"]


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell("--version").text.startswith("kbroker ")


@pytest.mark.parametrize("package", ["numba", "uvloop"])
def test_a_package_that_serve_misses_is_named_in_one_line(tmp_path: Path, package: str) -> None:
    """Missing: the description of one, the module of the other."""
    program = (
        "import importlib.metadata, importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *rest: None if name == {package!r} else find(name, *rest)\n"
        "of_all = importlib.metadata.Distribution.from_name\n"
        "def of(name):\n"
        f"    if name == {package!r}: raise importlib.metadata.PackageNotFoundError(name)\n"
        "    return of_all(name)\n"
        "importlib.metadata.Distribution.from_name = of\n"
        f"sys.modules[{package!r}] = None\n"
        "from kbroker.cli.app import main\n"
        f"sys.argv = ['kbroker', 'serve', '--override', 'log.dirs={tmp_path}',\n"
        "    '--override', 'listeners=PLAINTEXT://127.0.0.1:0', '--override', 'kbroker.http.listen=']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == ExitCode.FAILED, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"kbroker: {package} is not installed; ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("width", ["COLUMNS=0", "COLUMNS=²", "TERMINAL_WIDTH=x", "TERMINAL_WIDTH=0"])
def test_help_is_printed_whatever_width_the_environment_names(width: str) -> None:
    name, _, value = width.partition("=")
    command = [sys.executable, "-m", "kbroker", "topics", "--help"]
    environment = os.environ | {name: value, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert "Create, list, describe" in done.stdout.decode()


def test_a_wrong_command_line_ends_with_2(shell: Shell) -> None:
    assert "No such command" in shell("topics", "frobnicate", code=2).stderr
    assert "No such option" in shell("topics", "list", "--frob", code=2).stderr
    assert "expected host:port" in shell("topics", "list", "-b", "host:port", code=2).stderr


def test_an_address_without_a_listener_ends_with_3(shell: Shell) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    for command in (("topics", "list"), ("groups", "list"), ("consume", "t"), ("produce", "t")):
        done = shell(*command, "-b", address, code=3)
        refused = f"kbroker: cannot connect to {address}: Connection refused; is the broker running"
        assert done.stderr.startswith(refused)


@pytest.mark.slow
def test_a_peer_that_never_answers_ends_with_3(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def keep() -> None:
            with suppress(OSError):  # the server is closed at the end of the test
                while True:
                    kept.append(server.accept()[0])

        threading.Thread(target=keep, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for command in (("topics", "list"), ("cluster", "features"), ("offsets", "t")):
            shell(*command, "-b", address, "--timeout", 1, code=3)
        for peer in kept:
            peer.close()


def test_the_address_comes_from_option_environment_and_file_in_this_order(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:3\n")

    def failure(*arguments: object) -> str:
        return shell("topics", "list", "--command-config", file, *arguments, code=3).stderr.split(": ")[1]

    assert failure() == "cannot connect to 127.0.0.1:3"
    monkeypatch.setenv("KBROKER_BOOTSTRAP", "127.0.0.1:2")
    assert failure() == "cannot connect to 127.0.0.1:2"
    assert failure("-b", "127.0.0.1:1") == "cannot connect to 127.0.0.1:1"


def test_serve_gives_its_arguments_to_the_broker(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def serve(file: Path | None, overrides: list[str], from_environment: bool) -> int:
        given.extend((file, overrides, from_environment))
        return 7

    monkeypatch.setattr("kbroker.cli.serve.serve", serve)
    shell("serve", "server.properties", "--override", "a=1", "--override", "b=2", code=7)
    assert given == [Path("server.properties"), ["a=1", "b=2"], False]


def test_ctrl_c_ends_with_130_also_if_the_client_then_fails(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kafka-python does, whose event loop was interrupted."""

    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            try:
                raise ValueError
            except ValueError:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    monkeypatch.setattr("kbroker.cli.commands.application", lambda *_: interrupted)
    assert shell("topics", "list", code=130).stderr == ""


def test_ctrl_c_does_not_hide_that_records_are_not_written(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `kbroker produce`, which waits for the answers first."""

    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise CommandFailed("not written: 1 of 2 records")

    monkeypatch.setattr("kbroker.cli.commands.application", lambda *_: interrupted)
    assert shell("produce", "orders", code=130).stderr == "kbroker: not written: 1 of 2 records\n"


def test_bad_settings_of_serve_end_with_2(shell: Shell) -> None:
    shell("serve", "--override", "num.io.threads=none", code=2)
