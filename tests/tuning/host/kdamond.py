"""A host whose kernel runs a kdamond."""

from tests.tuning.fakes import FakeRoots
from tuning.host.reclaim import ADMIN


def with_kdamond(fake: FakeRoots, **files: str) -> FakeRoots:
    """One scheme as this was seen: after 60 s without a touch, up to 128 MiB a second."""
    scheme = "contexts/0/schemes/0"
    seen = {
        "state": "on",
        "contexts/0/operations": "paddr",
        "contexts/0/monitoring_attrs/intervals/aggr_us": "5000000",
        f"{scheme}/action": "pageout",
        f"{scheme}/access_pattern/age/min": "12",
        f"{scheme}/quotas/bytes": "134217728",
        f"{scheme}/quotas/reset_interval_ms": "1000",
    }
    for name, value in (seen | {f"{scheme}/{name}": value for name, value in files.items()}).items():
        fake.sys(f"{ADMIN}/0/{name}", value + "\n")
    return fake
