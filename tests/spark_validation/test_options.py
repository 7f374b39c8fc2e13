"""Command lines of the judge, read without Spark."""

import pytest

from spark_validation.options import CANNOT_JUDGE, EXAMPLES, parser


def test_a_second_value_of_an_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["judge", "--history", "a", "--bootstrap", "h:1", "--history", "b"])
    assert ended.value.code == CANNOT_JUDGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "argument --history: is given twice: give it once; see `" in line


def test_values_are_read_as_before() -> None:
    words = ["judge", "--history", "a", "--max-ack-ms", "5"]
    first, second = (parser().parse_args(words) for _ in range(2))  # one parser knows nothing of another
    assert (str(first.history), first.max_ack_ms) == ("a", 5)
    assert str(second.history) == "a"


def test_the_examples_have_options_that_exist_and_help_shows_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["judge", "--help"])
    shown = capsys.readouterr().out.splitlines()
    assert {f"  {line}" for line in EXAMPLES} <= {*shown}
    commands = [line.split()[1:] for line in EXAMPLES if not line.startswith("#")]
    assert len(commands) > 1
    for words in commands:
        assert parser().parse_args(words).history
