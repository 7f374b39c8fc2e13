from pathlib import Path

from tests.tuning.fakes import situation
from tuning.finding import Severity
from tuning.knobs.knob import FINE, Knob, sysctl
from tuning.knobs.registry import KNOBS, findings


def test_values_that_cannot_be_read_are_reported_as_unseen(tmp_path: Path) -> None:
    knob = Knob(
        "x",
        lambda _: (("a", 1), ("b", 2)),
        lambda _, n: None if n == 1 else "v",
        lambda *_: FINE,
        "why.",
        "who",
    )
    first, second = knob.findings(situation(tmp_path))
    assert (first.knob, first.severity) == ("a: x", Severity.UNSEEN)
    assert (second.knob, second.severity, second.now) == ("b: x", Severity.OK, "v")


def test_a_sysctl_that_is_missing_is_unseen(tmp_path: Path) -> None:
    knob = sysctl("no.such", lambda *_: (Severity.OK, "", ""), "why.", "who")
    assert knob.findings(situation(tmp_path))[0].severity is Severity.UNSEEN


def test_a_well_set_up_host_has_nothing_to_change(tmp_path: Path) -> None:
    wrong = [
        each for each in findings(situation(tmp_path)) if each.severity in (Severity.SERIOUS, Severity.ADVICE)
    ]
    assert wrong == []


def test_every_knob_has_a_name_of_its_own_a_reason_and_a_source() -> None:
    knobs = [knob for room in KNOBS.values() for knob in room]
    assert len({knob.name for knob in knobs}) == len(knobs) > 40
    assert all(knob.why.endswith(".") and knob.source for knob in knobs)
