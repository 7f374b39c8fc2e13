"""The arguments that a tier gives to pytest: its expression, and the files that hold its tests."""

import pytest

from tests import tiers


def test_a_tier_is_given_the_files_that_hold_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ["tests/io/test_a.py", "tests/iota/test_b.py", "tests/log/test_c.py"]
    monkeypatch.setattr(tiers, "files_of", lambda expressions: dict.fromkeys(expressions, here))
    assert tiers.chosen("kafka", after_short=False)[-3:] == tuple(here)
    plain = tiers.chosen("plain", after_short=False)
    assert [one for one in plain if one.startswith("tests/")] == ["tests/io/test_a.py", "tests/log/test_c.py"]


def test_a_part_of_the_long_tier_has_a_part_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ["tests/a.py", "tests/b.py", "tests/c.py"]
    monkeypatch.setattr(tiers, "files_of", lambda expressions: dict.fromkeys(expressions, here))
    monkeypatch.setenv("KBROKER_LONG_PART", "2/2")
    files = {tier: tiers.chosen(tier, after_short=False)[-3:] for tier in ("long", "kafka")}
    assert [one for one in files["long"] if one.startswith("tests/")] == ["tests/b.py"]
    assert files["kafka"] == tuple(here)


def test_without_a_collection_a_tier_looks_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "files_of", lambda expressions: {})
    _, expression, arguments = tiers.TIERS["fuzz"]
    assert tiers.chosen("fuzz", after_short=False) == ("-m", expression, *arguments)
    assert "tests/io" in tiers.chosen("plain", after_short=False)


def test_the_tier_of_nearly_all_files_notes_those_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "files_of", lambda expressions: {})
    monkeypatch.setattr(tiers, "kept", lambda expressions: None)
    monkeypatch.setattr(tiers, "noting", lambda expressions: ("-p", *expressions))
    assert tiers.chosen("fast", after_short=False)[-1 - len(tiers.TIERS) :] == ("-p", *tiers.TIERS)
    assert "-p" not in tiers.chosen("plain", after_short=False)


def test_tests_of_short_are_left_out_after_it_but_no_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "files_of", lambda expressions: {})
    for tier, repeated in (("compat", True), ("crash", False), ("fast", False)):
        assert ("and not short" in tiers.chosen(tier, after_short=True)[1]) == repeated
        assert "short" not in tiers.chosen(tier, after_short=False)[1]
