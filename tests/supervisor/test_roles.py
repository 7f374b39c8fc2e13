"""What each role imports until the broker is ready: it costs time at every start, and memory as
long as it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.supervisor.roles import ROLES

STAGES = """
import json, sys
import kbroker.cli.serve, kbroker.supervisor.supervisor
from kbroker.supervisor.roles import ROLES

found = {"parent": sorted(sys.modules)}
for role in ROLES:
    if not role.late:
        role.load()
        found[role.name] = sorted(sys.modules)
print(json.dumps(found))
"""
MOST = {"parent": 163, "control": 698, "io": 771, "network": 870}
"""Modules in the parent, once it has imported those of the role and of the roles before it, beyond
the standard library and numpy. Think twice before a number grows: a module costs each start 0.5 ms
or more. What only some brokers use is imported by those: Kafka's metadata log (19 ms of CPU at each
start before), OAUTHBEARER, other key stores.

parent: settings, the store's and the log dirs' checks before the first fork. control: some 100
messages and records, credentials for users that do not exist, 90 modules of groups, 50 of topics
and their changes, one file for each API, and the codecs; 30 are llvmlite's, which a broker that has
an image of its kernels does not import. io: the logs. network: the kernels and the connections."""

UNUSED = {"argparse", "email"}
"""Modules of the standard library that a broker can do without, and that import many others."""


@pytest.fixture(scope="module")
def modules() -> dict[str, set[str]]:
    """When the role's modules are imported, in the order of a start. Kernels stay plain, so that
    nothing depends on an image."""
    done = subprocess.run(
        [sys.executable, "-c", STAGES],
        env=os.environ | {"KBROKER_NO_KERNELS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    by_install = {"_distutils_hack", "sitecustomize", "usercustomize"}  # some Pythons have them
    not_ours = sys.stdlib_module_names | {"numpy"} | by_install
    not_ours -= UNUSED
    return {
        role: {name for name in names if name.partition(".")[0] not in not_ours}
        for role, names in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("role", MOST)
def test_a_role_imports_no_more_modules_than_it_did(modules: dict[str, set[str]], role: str) -> None:
    assert len(modules[role]) <= MOST[role], len(modules[role])


def test_every_role_that_a_client_waits_for_is_counted(modules: dict[str, set[str]]) -> None:
    assert set(MOST) == {"parent", *(role.name for role in ROLES if not role.late)} == set(modules)


@pytest.mark.parametrize("role", MOST)
def test_no_role_imports_what_is_for_compilers_commands_or_scrapes(
    modules: dict[str, set[str]], role: str
) -> None:
    others = UNUSED | {
        "numba",
        "typer",
        "rich",
        "confluent_kafka",
        "prometheus_client",
        "jwt",
        "cryptography",
        "kbroker.http.worker",
        "kbroker.supervisor.linker_memory",
    }
    assert not others & modules[role]


FIRST_FORK = """
import os, sys
from kbroker.cli.serve import serve
from kbroker.supervisor.roles import ROLES

def fork():
    missing = [role.name for role in ROLES if not role.late and role.main.partition(":")[0] not in sys.modules]
    print(" ".join(missing) or "all", flush=True)
    os._exit(0)

os.fork = fork
serve(None, sys.argv[1:])
"""


def test_the_parent_imports_the_modules_of_all_roles_before_it_forks_the_first(tmp_path: Path) -> None:
    """A page that one side changes after a fork is shared no more, so an import between two forks
    costs its memory twice."""
    settings = [
        f"log.dirs={tmp_path}",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "kbroker.http.listen=127.0.0.1:0",
    ]
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FORK, *settings],
        env=os.environ | {"KBROKER_NO_KERNELS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "all\n"


def test_numpy_starts_no_threads_in_a_parent_that_forks() -> None:
    program = (
        "import os, sys, kbroker.cli.serve as serve; "
        "serve.use_kernels = lambda _: (__import__('numpy'), os._exit(40 + len(os.listdir('/proc/self/task')))); "
        "serve.serve(None, [])"
    )
    clean = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    assert subprocess.run([sys.executable, "-c", program], env=clean, check=False).returncode == 41
