"""The capacity of this host, measured by `kbroker tune bench` or guessed carefully."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

DEFAULT_FILE = Path("host.json")
MAX_VALUE = 1e18
MIN_VALUE = 1e-18
GUESSED = "conservative estimates; measure with: kbroker tune bench --dir DIR"


class WrongFile(ValueError):
    """The coefficients file cannot be used; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Rates in bytes/s, times in seconds. origin: source of the values.

    write_rate: appends with the sync at the end. cold_read_rate: sequential, not in the page cache.
    sync_*: 16 KiB appended, then fdatasync. loopback_rate: sendfile to a socket of this host.
    send_cpu, receive_cpu: CPU s a GB of that. copy_rate: memory to memory. clock_s: one reading of
    the clock. read_iops, write_iops: operations of 4 KiB a second, at random places, past the page
    cache, of as many threads as are fastest. tls_cpu: CPU s a GB that one side of a TLS connection
    encrypts or decrypts.
    """

    origin: str = GUESSED
    directory: str = ""
    write_rate: float = 150e6
    cold_read_rate: float = 150e6
    sync_p50_s: float = 0.008
    sync_p99_s: float = 0.030
    loopback_rate: float = 2e9
    send_cpu: float = 0.2
    receive_cpu: float = 0.2
    copy_rate: float = 4e9
    clock_s: float = 100e-9
    read_iops: float = 100.0
    write_iops: float = 100.0
    tls_cpu: float = 1.0

    @property
    def measured(self) -> bool:
        return self.origin != GUESSED

    def save(self, path: Path) -> None:
        """Write as readable JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Coefficients":
        """Read a file of `save`. Raises WrongFile."""
        try:
            given = json.loads(path.read_text())
        except OSError as error:
            raise WrongFile(f"{path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise WrongFile(f"{path}: not a file of `kbroker tune bench`: {error}") from error
        if not isinstance(given, dict):
            raise WrongFile(f"{path}: not a file of `kbroker tune bench`: not an object")
        kinds = {field.name: field.type for field in fields(cls)}
        if unknown := sorted(given.keys() - kinds.keys()):
            raise WrongFile(f"{path}: unknown {', '.join(unknown)}")
        for name, value in given.items():
            right = isinstance(value, str) if kinds[name] is str else _positive(value)
            if not right:
                raise WrongFile(f"{path}: {name} cannot be {value!r}")
        return replace(cls(), **given)


def _positive(value: object) -> bool:
    """Whether it is a number that the formulas can divide by and multiply with."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and MIN_VALUE <= value <= MAX_VALUE  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class BrokerCosts:
    """Costs of kbroker, from docs/benchmarks.md. CPU in s a GB or s a request, memory in bytes.

    The machine of those figures needs LOOP_CPU for the bare loop of `tuning bench`, and TLS_CPU for
    its bare TLS; CPU costs of another host are scaled by its own. tls_*: what a GB over TLS costs
    more, by `python -m bench.tls_cost`.
    """

    in_cpu: float = 0.39
    out_cpu: float = 0.19
    request_cpu: float = 6.1e-6
    tls_in_cpu: float = 1.25
    tls_out_cpu: float = 1.35
    base_bytes: float = 120e6
    partition_bytes: float = 7.7 * 1024
    connection_bytes: float = 11e3

    def on(self, host: Coefficients) -> "BrokerCosts":
        """The costs, scaled to a host with these coefficients."""
        scale = (host.send_cpu + host.receive_cpu) / LOOP_CPU
        return replace(
            self,
            in_cpu=self.in_cpu * scale,
            out_cpu=self.out_cpu * scale,
            request_cpu=self.request_cpu * scale,
            tls_in_cpu=self.tls_in_cpu * host.tls_cpu / TLS_CPU,
            tls_out_cpu=self.tls_out_cpu * host.tls_cpu / TLS_CPU,
        )


LOOP_CPU = 0.16
"""Sender and receiver together, CPU s a GB, on the machine of docs/benchmarks.md, by
`kbroker tune bench`."""
TLS_CPU = 0.28
"""CPU s a GB of one side of bare TLS there."""
