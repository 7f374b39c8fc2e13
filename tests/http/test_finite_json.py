"""Numbers that JSON has, and those that only Python reads."""

import json

import pytest

from kbroker.http.finite_json import loads

INFINITE = ["Infinity", "-Infinity", "NaN", "1e999", "-1e999", "1" * 400 + ".0", "1e" + "9" * 1000]


@pytest.mark.parametrize("text", ["1e308", "-0.0", "5e-324", "1e-999", "17", '{"a": [1.5, null, true]}'])
def test_numbers_of_json_are_read_as_ever(text: str) -> None:
    assert loads(text) == loads(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", INFINITE)
@pytest.mark.parametrize("around", ["%s", "[%s]", '{"a": {"b": [1, %s]}}'])
def test_numbers_that_are_not_finite_are_refused(text: str, around: str) -> None:
    with pytest.raises(ValueError, match="number"):
        loads(around % text)
