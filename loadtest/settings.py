"""Settings of a load test, with checks: an invalid option gets one clear sentence."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from loadtest.record import HEADER_BYTES, MAX_KEYS
from loadtest.shape import SHAPES

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
PROTOCOLS = ("classic", "consumer")
ACKS = ("all", "1", "0")
MAX_SECONDS = 100 * 86400
MAX_RATE = 1e8


class WrongSetting(ValueError):
    """An invalid setting; the text has its name and the allowed values."""


@dataclass(slots=True, frozen=True)
class Settings:
    """Counts are client processes. `rate` is records a second of all producers together; 0: as fast
    as they can."""

    seconds: float = 60.0
    seed: int = 1
    rate: float = 4000.0
    shape: str = "steady"
    record_bytes: tuple[int, int] = (200, 400)  # smallest, largest; header included
    keys: int = 1000
    skew: float = 0.99  # Zipf's exponent; 0: all keys equally often
    partitions: int = 6
    compression: str = "lz4"
    linger_ms: float = 5.0
    acks: str = "all"  # of the plain producers
    plain: int = 1  # producers without idempotence
    idempotent: int = 2
    transactional: int = 1
    copiers: int = 1  # consume, transform, produce, exactly once; they read what the transactional ones write
    consumers: int = 5  # a group for each topic; each consumer process joins the next one
    sharers: int = 0  # members of share groups (KIP-932), a group for each topic
    group_protocol: str = "classic"  # of the consumers; consumer: KIP-848
    consume_rate: float = 0.0  # records a second of each consumer; 0: no limit
    # about the time after which a consumer leaves its group and another joins; 0: they stay
    churn_seconds: float = 15.0
    transaction_records: int = 100
    abort_share: float = 0.1
    workers: int = 1  # Locust: 1 is one process; more are a master and so many workers
    history: bool = True
    segment_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        low, high = self.record_bytes
        _want(0 < self.seconds <= MAX_SECONDS, "seconds", self.seconds, f"more than 0, up to {MAX_SECONDS}")
        _want(0 <= self.rate <= MAX_RATE, "rate", self.rate, f"0 (no limit) to {MAX_RATE:,.0f}")
        _want(self.shape in SHAPES, "shape", self.shape, " | ".join(SHAPES))
        _want(
            HEADER_BYTES <= low <= high <= 1_000_000,
            "record-bytes",
            f"{low}-{high}",
            f"{HEADER_BYTES} to 1000000, smallest first",
        )
        _want(1 <= self.keys < MAX_KEYS, "keys", self.keys, f"1 to {MAX_KEYS - 1}")
        _want(0 <= self.skew <= 5, "skew", self.skew, "0 to 5")
        _want(1 <= self.partitions <= 1000, "partitions", self.partitions, "1 to 1000")
        _want(self.compression in COMPRESSIONS, "compression", self.compression, " | ".join(COMPRESSIONS))
        _want(self.acks in ACKS, "acks", self.acks, " | ".join(ACKS))
        _want(self.group_protocol in PROTOCOLS, "group-protocol", self.group_protocol, " | ".join(PROTOCOLS))
        _want(0 <= self.abort_share <= 1, "abort-share", self.abort_share, "0 to 1")
        _want(
            1 <= self.transaction_records <= 1_000_000,
            "transaction-records",
            self.transaction_records,
            "1 to 1000000",
        )
        _want(0 <= self.linger_ms <= 900_000, "linger-ms", self.linger_ms, "0 to 900000, as in librdkafka")
        _want(
            0 <= self.consume_rate <= MAX_RATE,
            "consume-rate",
            self.consume_rate,
            f"0 (no limit) to {MAX_RATE:,.0f}",
        )
        _want(
            0 <= self.churn_seconds <= MAX_SECONDS,
            "churn-seconds",
            self.churn_seconds,
            f"0 (never) to {MAX_SECONDS}",
        )
        _want(1 <= self.workers <= 64, "workers", self.workers, "1 to 64")
        for name in ("plain", "idempotent", "transactional", "copiers", "consumers", "sharers"):
            _want(0 <= getattr(self, name) <= 1000, name, getattr(self, name), "0 to 1000")
        _want(self.producers > 0, "plain + idempotent + transactional", 0, "at least one producer")
        _want(self.copiers == 0 or self.transactional > 0, "copiers", self.copiers, "0 without transactional")

    @property
    def producers(self) -> int:
        """Producers that follow the schedule; copiers follow what they read."""
        return self.plain + self.idempotent + self.transactional

    def modes(self) -> list[str]:
        """Modes of the topics of this load, see loadtest.run.Topic."""
        counts = {
            "plain": self.plain,
            "idempotent": self.idempotent,
            "transactional": self.transactional,
            "copied": self.copiers,
        }
        return [mode for mode, count in counts.items() if count]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(content: dict[str, Any]) -> Settings:
    known = {field.name for field in fields(Settings)}
    values = {name: value for name, value in content.items() if name in known}
    return Settings(**{**values, "record_bytes": tuple(values["record_bytes"])})


def parse_record_bytes(text: str) -> tuple[int, int]:
    """`256` or `100-1000`."""
    try:
        low, _, high = text.partition("-")
        return int(low), int(high or low)
    except ValueError:
        raise WrongSetting(f"--record-bytes {text}: a number, or two with a dash such as 100-1000") from None


def _want(right: bool, name: str, value: object, allowed: str) -> None:
    if not right:
        raise WrongSetting(f"--{name} {value}: allowed is {allowed}")
