"""A running broker's /metrics (docs/metrics.md)."""

import math
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse

from prometheus_client.parser import text_string_to_metric_families

from kbroker.config.http_login import login_header, without_login
from kbroker.config.http_owner import NO_HTTP, NotTheBroker, OwnedConnection

Labels = tuple[tuple[str, str], ...]
SERIES = (
    "kbroker_appended_bytes_total", "kbroker_arena_used_bytes", "kbroker_connections", "kbroker_flush_seconds",
    "kbroker_groups", "kbroker_info", "kbroker_log_dir_full_seconds", "kbroker_log_dir_offline",
    "kbroker_loop_lag_seconds", "kbroker_network_stalls_total", "kbroker_partitions", "kbroker_process_memory_bytes",
    "kbroker_process_open_fds", "kbroker_process_start_time_seconds", "kbroker_requests_total",
    "kbroker_tcp_listen_drops_total", "kbroker_topic_cold_bytes_total", "kbroker_topic_log_bytes",
    "kbroker_topic_out_bytes_total", "kbroker_topic_partitions",
)  # fmt: skip
"""The metrics that the checks read of the page, for a process that can ask for these alone."""

TOTALS = ("_total", "_bucket", "_count", "_sum")


class Owned(urllib.request.HTTPHandler):
    """Sends a login over plain HTTP within this host only to the broker's user."""

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(OwnedConnection, req)


class NoMetrics(RuntimeError):
    """The page cannot be had, or is not kbroker's; says why."""


@dataclass(frozen=True, slots=True)
class Live:
    """series: value by labels, by name of the series. Totals count since the broker's start, or in
    the last `seconds` if these are not 0."""

    series: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    seconds: float = 0.0

    def since(self, earlier: "Live", seconds: float) -> "Live":
        """The reading with totals since an earlier one, `seconds` ago. A total that is smaller than
        before is that of a broker that has restarted."""
        series = {}
        for name, values in self.series.items():
            before = earlier.series.get(name, {}) if name.endswith(TOTALS) else {}
            series[name] = {
                key: value - before[key] if key in before and before[key] <= value else value
                for key, value in values.items()
            }
        return Live(series, seconds)

    def total(self, name: str, **labels: str) -> float:
        """Sum of the series that carry these labels; 0 when there is none."""
        return sum(self.values(name, **labels).values())

    def most(self, name: str, **labels: str) -> float | None:
        """The largest of them, None when there is none."""
        return max(self.values(name, **labels).values(), default=None)

    def values(self, name: str, **labels: str) -> dict[Labels, float]:
        """The series of a name that carry these labels."""
        expected = labels.items()
        return {key: value for key, value in self.series.get(name, {}).items() if expected <= set(key)}

    def quantile(self, name: str, share: float, **labels: str) -> float | None:
        """Upper bound of the bucket of histogram `name` that holds the quantile, in seconds; None
        without counts."""
        buckets: dict[float, float] = {}
        for key, count in self.values(name + "_bucket", **labels).items():
            bound = float(dict(key)["le"])
            buckets[bound] = buckets.get(bound, 0.0) + count
        whole = buckets.get(math.inf, 0.0)
        if not whole:
            return None
        return next(bound for bound in sorted(buckets) if buckets[bound] >= share * whole)


def parse(text: str) -> Live:
    """A page in Prometheus' text format. Raises NoMetrics when it is not kbroker's."""
    series: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                series.setdefault(sample.name, {})[labels] = sample.value
    except ValueError as error:
        raise NoMetrics(f"not Prometheus' text format: {error}") from error
    if "kbroker_info" not in series:
        raise NoMetrics("these are not the metrics of a kbroker: no kbroker_info")
    return Live(series)


def scrape(url: str, timeout_s: float = 5.0) -> Live:
    """The page at `http://host:port/metrics`; `host:port` is enough, and so is the URL of the
    console. Raises NoMetrics."""
    whole = url if "://" in url else f"http://{url}"
    if not any(char in without_login(whole).partition("://")[2].rstrip("/") for char in "/?"):
        whole = f"{whole.rstrip('/')}/metrics"
    if not whole.startswith(("http://", "https://")):
        raise NoMetrics(f"{without_login(whole)}: neither http nor https")
    try:
        request = _request(whole)
        opener = urllib.request.build_opener(*([Owned()] if request.unredirected_hdrs else []))
        with opener.open(request, timeout=timeout_s) as answer:
            page = answer.read().decode()
    except NotTheBroker as error:
        raise NoMetrics(f"{without_login(whole)}: {error}") from None
    except (OSError, ValueError, HTTPException) as error:  # also an odd URL, and the port of another protocol
        reason = getattr(error, "reason", None) or error  # an URLError only wraps the error that counts
        text = getattr(reason, "strerror", None) or str(reason).strip() or type(reason).__name__
        text = "no HTTP is spoken there" if type(reason) in NO_HTTP else text
        hint = "--metrics takes the broker's kbroker.http.listen"
        if isinstance(reason, ssl.SSLCertVerificationError):
            text, hint = reason.verify_message, "SSL_CERT_FILE=FILE names the certificates to trust"
        raise NoMetrics(f"{without_login(whole)}: {text}; {hint}") from error
    try:
        return parse(page)
    except NoMetrics as error:
        raise NoMetrics(f"{without_login(whole)}: {error}") from error


def _request(url: str) -> urllib.request.Request:
    """A request with a login: that of `https://name:password@host`, else the variable's."""
    request = urllib.request.Request(without_login(url))
    for name, value in login_header(url).items():
        request.add_unredirected_header(name, value)
    return request
