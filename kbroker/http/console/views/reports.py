"""Reports of the judge, of load tests, of the benchmark and of `kbroker tune verify`, in the folder
of kbroker.console.reports.dir."""

from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.refusal import not_found
from kbroker.http.console.report_files import NoReport, ReportFile
from kbroker.http.console.reports import Report, report_of
from kbroker.http.console.request import Request
from kbroker.http.console.schema import INT, TEXT, fields, many, maybe
from kbroker.http.console.views.settings import check_may_read

CHARACTERS = 200_000
"""Characters of a report's text in one answer."""
FIGURES = many(fields(name=TEXT, value=TEXT))
ROW: dict[str, Any] = {
    "name": TEXT, "kind": TEXT, "verdict": TEXT, "tone": TEXT, "written_ms": INT, "bytes": INT, "figures": FIGURES,
}  # fmt: skip
REPORTS = fields(
    folder=maybe(TEXT), problem=maybe(TEXT), left_out=INT, **page_of("reports", fields(**ROW))["properties"]
)
TABLE = fields(title=TEXT, columns=many(TEXT), rows=many(many(TEXT)), left_out=INT)
REPORT = fields(**ROW, tables=many(TABLE), text=TEXT, next_offset=maybe(INT))


def reports(request: Request) -> dict[str, Any]:
    """A page of reports, the newest first. left_out: number of files that were not read."""
    check_may_read(request, "reports")
    if request.reports is None:
        return {"folder": None, "problem": None, "left_out": 0, **page("reports", [], request)}
    listed = request.reports.listed()
    rows = [_row(file, found) for file, found in listed.found]
    return {
        "folder": request.reports.folder.path,
        "problem": listed.problem or None,
        "left_out": listed.left_out,
        **page("reports", rows, request),
    }


def report(request: Request) -> dict[str, Any]:
    """One report: its tables, and its text from `offset` on."""
    check_may_read(request, "reports")
    missing = not_found("there is no such report")
    if request.reports is None:
        raise missing
    try:
        file, data = request.reports.folder.read(request["report"])
    except NoReport:
        raise missing from None
    found = report_of(data)
    if found is None:
        raise missing
    text = data.decode(errors="replace")
    end = request["offset"] + CHARACTERS
    return {
        **_row(file, found),
        "tables": [
            {"title": each.title, "columns": list(each.columns), "rows": each.rows, "left_out": each.left_out}
            for each in found.tables
        ],
        "text": text[request["offset"] : end],
        "next_offset": end if end < len(text) else None,
    }


def _row(file: ReportFile, found: Report) -> dict[str, Any]:
    return {
        "name": file.name,
        "kind": found.kind,
        "verdict": found.verdict,
        "tone": found.tone,
        "written_ms": file.written_ms,
        "bytes": file.size,
        "figures": [{"name": name, "value": value} for name, value in found.figures],
    }
