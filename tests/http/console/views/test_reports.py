"""What requests for reports answer, and to whom."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.report_files import ReportFolder
from kbroker.http.console.report_list import ReportList
from kbroker.http.console.request import Request
from kbroker.http.console.views.reports import CHARACTERS, REPORT, REPORTS, report, reports
from kbroker.protocol.errors import ErrorCode
from tests.http.console.report_samples import write_reports
from tests.http.console.schemas import problems


@dataclass
class Asked:
    """A request of a user; code: the broker's answer to whether he may describe settings."""

    reports: ReportList | None
    code: int = 0
    values: dict[str, Any] = field(default_factory=lambda: {"offset": 0, "limit": 100})
    config: BrokerConfig = field(default_factory=lambda: BrokerConfig({}))

    @property
    def caller(self) -> Any:
        answer = SimpleNamespace(results=[SimpleNamespace(error_code=self.code, error_message=None)])
        return SimpleNamespace(ask=lambda *_: answer)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def request(self) -> Request:
        return cast(Request, self)


@pytest.fixture
def listed(tmp_path: Path) -> ReportList:
    write_reports(tmp_path / "reports")
    return ReportList(ReportFolder(str(tmp_path / "reports")))


@pytest.mark.parametrize("answer", [reports, report])
def test_a_user_without_describe_configs_sees_no_reports(listed: ReportList, answer: Any) -> None:
    requested = Asked(listed, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, {"report": "bench.json", "offset": 0})
    with pytest.raises(Refusal) as refused:
        answer(requested.request)
    assert refused.value.status == 403


def test_reports_are_listed_by_page(listed: ReportList) -> None:
    whole = reports(Asked(listed).request)
    assert problems(whole, REPORTS) == []
    assert (whole["total"], whole["left_out"], whole["problem"]) == (3, 0, None)
    second = reports(Asked(listed, values={"offset": 1, "limit": 1}).request)
    assert second["reports"] == whole["reports"][1:2]


def test_a_missing_folder_of_reports_is_reported(tmp_path: Path) -> None:
    assert reports(Asked(None).request) == {
        "folder": None,
        "problem": None,
        "left_out": 0,
        "reports": [],
        "total": 0,
        "offset": 0,
    }
    with pytest.raises(Refusal, match="no such report"):
        report(Asked(None, values={"report": "bench.json", "offset": 0}).request)
    missing = reports(Asked(ReportList(ReportFolder(str(tmp_path / "none")))).request)
    assert missing["problem"] == "No such file or directory"


def test_a_text_comes_in_parts(listed: ReportList) -> None:
    def part(offset: int) -> dict[str, Any]:
        values = {"report": "load/run-1/verdict.json", "offset": offset}
        return report(Asked(listed, values=values).request)

    first = part(0)
    assert problems(first, REPORT) == []
    assert (len(first["text"]), first["next_offset"]) == (CHARACTERS, CHARACTERS)
    second = part(CHARACTERS)
    assert second["next_offset"] is None
    text = (Path(listed.folder.path) / "load" / "run-1" / "verdict.json").read_text()
    assert first["text"] + second["text"] == text
    assert part(len(text) + 5)["text"] == ""


@pytest.mark.parametrize("name", ["secret.json", "link.json", "../outside.json", "none.json", "load"])
def test_only_reports_of_the_folder_are_shown(listed: ReportList, name: str) -> None:
    with pytest.raises(Refusal, match="no such report") as refused:
        report(Asked(listed, values={"report": name, "offset": 0}).request)
    assert refused.value.status == 404
