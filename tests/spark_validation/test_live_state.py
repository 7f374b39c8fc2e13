"""The live judgement's memory: what is settled when."""

from spark_validation.live.state import Live

PLACE = ("t", 0, 3)


def test_sides_that_agree_settle_after_the_grace() -> None:
    live = Live(grace_s=10)
    live.merge("sent", PLACE, 5, 77, now=0)
    live.merge("held", PLACE, 5, 77, now=1)
    assert live.due(now=5) == []
    assert live.settled == set()
    assert live.due(now=11) == []
    assert live.settled == {PLACE}


def test_sides_that_differ_are_due_once_quiet_and_again_when_they_change() -> None:
    live = Live(grace_s=10)
    live.merge("sent", PLACE, 5, 77, now=0)
    live.merge("held", PLACE, 4, 70, now=0)
    assert live.due(now=9) == []
    assert live.due(now=10) == [PLACE]
    live.settle([PLACE])
    assert live.due(now=30) == []
    live.merge("held", PLACE, 1, 7, now=30)
    assert live.due(now=40) == [PLACE]


def test_the_end_of_the_run_makes_everything_due() -> None:
    live = Live(grace_s=10)
    live.merge("sent", PLACE, 5, 77, now=0)
    assert live.due(now=1, ended=True) == [PLACE]


def test_a_difference_is_due_once_more_at_the_end() -> None:
    """A record below the log's start is no fault until it is known what moved that start."""
    live = Live(grace_s=0)
    for place in (PLACE, ("t", 0, 4)):
        live.merge("sent", place, 5, 77, now=0)
    live.merge("held", PLACE, 5, 77, now=0)
    live.settle(live.due(now=1))
    assert live.due(now=2) == []
    assert live.due(now=3, ended=True) == [("t", 0, 4)]


def test_batches_of_one_bucket_add_up_in_any_order() -> None:
    live = Live(grace_s=0)
    for count, hash_ in ((2, 9), (3, 12)):
        live.merge("sent", PLACE, count, hash_, now=0)
    for count, hash_ in ((3, 12), (2, 9)):
        live.merge("held", PLACE, count, hash_, now=0)
    assert live.due(now=1) == []
    assert live.totals()["sends"] == live.totals()["log"] == 5


def test_a_run_that_showed_nothing_of_a_kind_is_not_clean() -> None:
    live = Live(grace_s=0)
    assert live.absent() == [
        "no acknowledged send was seen",
        "no record of the log was seen",
        "no delivered record was seen",
    ]
    live.merge("sent", PLACE, 5, 77, now=0)
    live.reads = 3
    assert live.absent() == ["no record of the log was seen"]
    live.merge("held", PLACE, 5, 77, now=0)
    assert live.absent() == []


def test_a_job_that_ends_before_the_run_has_no_verdict_on_what_still_differs() -> None:
    live = Live(grace_s=10)
    for place in (PLACE, ("t", 0, 4)):
        live.merge("sent", place, 5, 77, now=0)
    live.merge("held", PLACE, 5, 77, now=0)
    assert live.due(now=9) == []
    assert live.unjudged() == ["1 buckets of offsets differ and were not judged yet"]
    live.settle(live.due(now=10))
    assert live.unjudged() == []
