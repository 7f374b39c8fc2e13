"""`kbroker status`: shows the broker's problems on one page."""

import time
from http import HTTPStatus
from typing import Annotated, Any

import typer

from kbroker.cli.console_link import BUSY, DEFAULT_URL, ODD_ANSWER, ConsoleLink, LoginFile
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, Unreachable
from kbroker.cli.health_checks import INFO, NAMES, Check, Metrics, age, checks, started_s
from kbroker.cli.options import AsJson, examples
from kbroker.cli.output import print_json, print_table, printed
from kbroker.config.counts import counted
from kbroker.config.http_login import without_login

MAX_REASON = 200
EXAMPLES = examples(
    "kbroker status",
    "kbroker status --max-lag 100000 || echo 'needs attention'",
    "kbroker status --json | jq -r '.checks[].problems[]'",
)


def status(
    url: Annotated[
        str, typer.Option(metavar="URL", help="URL of the broker's metrics and console.")
    ] = DEFAULT_URL,
    max_lag: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="RECORDS", help="A group with more lag is a problem.", show_default="no limit"
        ),
    ] = None,
    command_config: LoginFile = None,
    json: AsJson = False,
) -> None:
    """Check processes, log dirs, partitions, lag and certificates. Ends with 1 if there is a
    problem.

    Problems are: a broker that is not ready; a process that was restarted in the last hour; a log
    dir that is offline, has less than 5 % free, has less than 20 % and is full within a day, or has
    an old copy of the store; partitions that are offline, under-replicated, below
    min.insync.replicas, refuse produce or cannot be cleaned; a certificate that expires within 14
    days; a group with more lag than --max-lag."""
    link = ConsoleLink(url, command_config)
    metrics = read_metrics(link)
    now_s = time.time()
    not_ready = _not_ready(link)
    try:
        found = checks(metrics, not_ready, now_s, max_lag)
        well = not any(check.problems for check in found)
        start_s = started_s(metrics)
        up_s = None if start_s is None else now_s - start_s
        labels = dict(metrics[INFO][0][0])
        page = _document(well, labels, up_s, url, found) if json else _head(well, labels, up_s, url, found)
    except ODD_ANSWER as error:
        raise _not_kbroker(link, error) from error
    if json:
        print_json(page)
    else:
        print(page)
        rows = [(check.name, "no" if check.problems else "ok", _line(check)) for check in found]
        print_table(("CHECK", "STATE", "DETAIL"), rows)
    if not well:
        raise typer.Exit(ExitCode.FAILED)


def read_metrics(link: ConsoleLink) -> Metrics:
    """The metrics that checks need. Raises Unreachable, CommandFailed."""
    from prometheus_client.parser import text_string_to_metric_families

    code, body = link.get("/metrics")
    lines = body.decode(errors="replace").split("\n")  # splitlines() would break names at U+2028
    shown = [line for line in lines if line.partition("{")[0].partition(" ")[0] in NAMES]
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    try:
        for family in text_string_to_metric_families("\n".join(shown) + "\n"):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    except ODD_ANSWER as error:
        raise _not_kbroker(link, error) from error
    if code == HTTPStatus.UNAUTHORIZED:
        raise link.not_logged_in(body.decode(errors="replace"))
    if code in BUSY:
        reason = " ".join(body.decode(errors="replace").split())[:MAX_REASON]
        raise Unreachable(f"{link.shown}: {printed(reason) or HTTPStatus(code).phrase}; try again")
    if code != HTTPStatus.OK or INFO not in found:
        raise CommandFailed(
            f"{link.shown}: no metrics of a kbroker here (HTTP {int(code)}); "
            "set --url to its kbroker.http.listen"
        )
    return found


def _not_kbroker(link: ConsoleLink, error: Exception) -> CommandFailed:
    why = f"{type(error).__name__}: {error}"
    return CommandFailed(f"{link.shown}: its metrics are not those of this version of kbroker ({why})")


def _not_ready(link: ConsoleLink) -> list[str]:
    code, body = link.get("/readyz")
    if code == HTTPStatus.OK:
        return []
    return body.decode(errors="replace").splitlines() or [f"/readyz answers HTTP {int(code)}"]


def _document(
    well: bool, labels: dict[str, str], up_s: float | None, url: str, found: list[Check]
) -> dict[str, Any]:
    return {
        "ok": well,
        **labels,
        "up_s": None if up_s is None else round(up_s, 1),
        "console": without_login(url),
        "checks": [
            {
                "check": check.name,
                "ok": not check.problems,
                "detail": check.detail,
                "problems": check.problems,
            }
            for check in found
        ],
    }


def _head(well: bool, labels: dict[str, str], up_s: float | None, url: str, found: list[Check]) -> str:
    """The first line of the page."""
    count = sum(len(check.problems) for check in found)
    verdict = "all is well" if well else counted(count, "problem")
    since = "" if up_s is None else f"  up {age(up_s)}"
    about = f"kbroker {labels['version']}  node {labels['node_id']}"
    return printed(f"{about}{since}  {without_login(url)}  {verdict}")


def _line(check: Check) -> str:
    """Detail and problems; without a detail that the first problem repeats."""
    repeated = any(problem.startswith(check.detail) for problem in check.problems)
    return "; ".join(([] if repeated else [check.detail]) + check.problems)
