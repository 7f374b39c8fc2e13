import json
import re
from pathlib import Path
from xml.etree import ElementTree

from kbroker.config.properties import parse
from tests.tuning.verify.proofs import HELPED, SAME, outcome, report
from tests.tuning.verify.samples import broker_change, host_change
from tests.tuning.verify.turns import turns
from tuning.verify.command import Files
from tuning.verify.decision import Decision, Verdict, decide
from tuning.verify.page import page
from tuning.verify.report import NOTHING, OPEN, QUIET
from tuning.verify.run import Outcome

ON_HOST = outcome(host_change(), turns(800, 3.0))


def test_the_text_says_what_stays_and_how_to_take_it_back() -> None:
    reported = report(HELPED, ON_HOST, SAME).text()
    assert "2 of 3 changes helped and stay." in reported
    assert "set in the broker's properties: num.io.threads=2" in reported
    assert "undo: echo 128 > /sys/block/nvme0n1/queue/read_ahead_kb" in reported
    assert "800 (776-824) MB/s" in reported
    assert "+12.5% better" in reported
    assert reported.count("=> within the spread: reverted") == 1
    assert "vm.swappiness: it is <scarce>" in reported


def test_a_host_that_cannot_be_improved_is_reported_as_such() -> None:
    assert report(SAME).conclusion == f"{NOTHING} {QUIET}"
    assert f"{NOTHING} {QUIET}" in report(SAME).text()
    assert report(outcome(broker_change(), turns(9000, 0.4)[:3])).conclusion == OPEN
    assert report().conclusion == "There was nothing to try."


def test_turns_that_differ_widely_are_no_praise_of_the_host() -> None:
    wide = (0.5, 0.8, 1.0, 1.2, 1.5)
    noisy = Outcome(
        broker_change(), turns(800, 4.0, wide), turns(805, 4.0, wide),
        decide(turns(800, 4.0, wide), turns(805, 4.0, wide)),
    )  # fmt: skip
    assert report(noisy).conclusion.startswith(f"{NOTHING} The turns of one side differ by 100%")
    assert QUIET not in report(noisy).text()


def test_after_a_signal_nothing_is_kept() -> None:
    ended = report(HELPED, ON_HOST, interrupted="SIGINT")
    assert ended.kept == ()
    assert "SIGINT" in ended.conclusion
    assert "kept" not in ended.text().replace("nothing was kept", "")
    assert ended.as_json()["kept"] == []


def test_the_json_has_every_turn_and_the_rule() -> None:
    reported = json.loads(json.dumps(report(HELPED, SAME).as_json(), allow_nan=False))
    assert reported["conclusion"].startswith("1 of 2")
    assert reported["kept"] == ["num.io.threads=2"]
    assert reported["rule"]["fewest_turns"] == 5
    helped, same = reported["changes"]
    assert (helped["verdict"], helped["kept"], same["verdict"], same["kept"]) == (
        "helped", True, "no_change", False,
    )  # fmt: skip
    figure = next(each for each in helped["figures"] if each["key"] == "produce_mb_per_s")
    assert len(figure["without"]) == len(figure["with"]) == 5
    assert (figure["better"], figure["judgement"]) == ("more", "better")
    assert reported["left"] == [{"what": "vm.swappiness", "why": "it is <scarce>"}]


def test_kept_settings_are_lines_that_the_broker_reads() -> None:
    assert parse(report(HELPED, ON_HOST, SAME).properties()) == {"num.io.threads": "2"}
    assert "900 (873-927) MB/s" in " ".join(report(HELPED).properties().replace("# ", "").split())
    assert parse(report(SAME).properties()) == {}
    assert NOTHING in report(SAME).properties()


def test_the_page_has_a_plot_of_each_figure_and_needs_nothing_else() -> None:
    failed = Outcome(broker_change("kbroker.ring.entries"), [], [], Decision(Verdict.FAILED, ()), "code <2>")
    text = page(report(HELPED, SAME, failed))
    assert text.count("<svg ") == 4
    assert text.count("<circle ") == 4 * 10
    assert "it is &lt;scarce&gt;" in text
    assert "code &lt;2&gt;" in text
    assert not re.search(r"<script|https?://|src=|@import|url\(", text)
    for picture in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(picture)
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta [^>]*>", "", text))


def test_equal_values_and_one_side_have_a_plot_too() -> None:
    one = Outcome(broker_change(), turns(0.0, 4.0)[:1], [], decide(turns(0.0, 4.0)[:1], []))
    assert "NaN" not in page(report(one))
    assert page(report(one)).count("<circle ") == 2


def test_files_are_written_where_requested(tmp_path: Path) -> None:
    Files().write(report(HELPED))
    assert not list(tmp_path.iterdir())
    Files(tmp_path / "a.json", tmp_path / "a.html", tmp_path / "a.properties").write(report(HELPED))
    assert json.loads((tmp_path / "a.json").read_text())["kept"] == ["num.io.threads=2"]
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert parse((tmp_path / "a.properties").read_text()) == {"num.io.threads": "2"}
