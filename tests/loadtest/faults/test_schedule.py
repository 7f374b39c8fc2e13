"""The plan of faults: from a seed alone, fair, and honest about what cannot be done from afar."""

import itertools

import pytest

from loadtest.faults.schedule import KBROKER_ROLES, KINDS, UnknownFault, parse_kinds, plan


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(7, 600, list(KINDS), "kbroker") == plan(7, 600, list(KINDS), "kbroker")
    assert plan(7, 600, list(KINDS), "kbroker") != plan(8, 600, list(KINDS), "kbroker")


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = plan(7, 100, list(KINDS), "kbroker")
    assert plan(7, 600, list(KINDS), "kbroker")[: len(short)] == short


def test_every_kind_and_every_role_comes_before_any_comes_twice() -> None:
    faults = [(fault.kind, fault.target) for fault in plan(7, 3600, list(KINDS), "kbroker")]
    different = 2 * len(KBROKER_ROLES) + 7
    assert len(set(faults[:different])) == different
    assert {target for kind, target in faults if kind == "kill"} == set(KBROKER_ROLES)


def test_faults_do_not_overlap_and_leave_the_end_quiet() -> None:
    faults = plan(3, 600, list(KINDS), "kbroker")
    for fault, following in itertools.pairwise(faults):
        assert fault.at_s + fault.seconds < following.at_s
    assert faults[-1].at_s + faults[-1].seconds <= 570


def test_a_remote_broker_gets_only_changes_that_need_no_access_to_its_host() -> None:
    assert {fault.kind for fault in plan(1, 600, list(KINDS), "remote")} == {"reset"}
    assert plan(1, 600, ["kill", "fill"], "remote") == []


def test_names_are_checked() -> None:
    assert parse_kinds("all") == list(KINDS)
    assert parse_kinds("none") == []
    assert parse_kinds("kill, reset") == ["kill", "reset"]
    with pytest.raises(UnknownFault, match="earthquake"):
        parse_kinds("kill,earthquake")
