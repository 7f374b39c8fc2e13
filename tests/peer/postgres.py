"""A PostgreSQL of the tests: the installed programs, on a free port, in a folder of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.peer.eventually import eventually
from tests.peer.ports import free_port

SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "wal_sender_timeout": "10s",
}
USER = "postgres"


class PostgresMissing(Exception):
    """PostgreSQL is not installed."""


def programs() -> Path:
    """The folder of the newest server's programs. Raises PostgresMissing."""
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if not installed:
        raise PostgresMissing("no PostgreSQL server (Debian's package: postgresql)")
    return installed[-1].parent


class Postgres:
    """One server without passwords. The caller that starts it stops it.

    PostgreSQL refuses to run as root: then it runs as the user `nobody`, in a folder that this user
    can reach."""

    def __init__(self) -> None:
        self.port = free_port()
        self._programs = programs()
        self._folder = Path(tempfile.mkdtemp(prefix="kbroker-postgres-"))
        self._user: dict[str, int] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Makes an empty database and waits until the server answers."""
        data = self._folder / "data"
        options = ("--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8", "--locale", "C")
        subprocess.run(
            [self._programs / "initdb", "--pgdata", data, *options],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            check=True,
            **self._user,  # type: ignore[call-overload]
        )
        words = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", data, "-p", str(self.port), *words]
        with open(self._folder / "postgres.log", "wb") as out:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                **self._user,  # type: ignore[call-overload]
            )
        eventually(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "postgres.log").read_text()
        try:
            return self.sql("SELECT 1") == ["1"]
        except subprocess.CalledProcessError:
            return False

    def sql(self, statement: str) -> list[str]:
        """The rows of a statement; columns are separated by `|`."""
        command = [str(self._programs / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        done = subprocess.run(
            [*command, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.splitlines()

    def stop(self) -> None:
        """A fast shutdown; removes the folder."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)
