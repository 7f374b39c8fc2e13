"""What is checked of a request before anything is done with it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.http.console.refusal import Refusal
from kbroker.http.console.routes import ROUTES
from kbroker.http.console.schema import Parameter, from_body, from_query

COUNT = Parameter("count", "How many.", "integer", 7, low=1, high=100)
NAME = Parameter("name", "Which.", required=True, high=10)
KIND = Parameter("kind", "What.", choices=("a", "b"))
FLAG = Parameter("flag", "Whether.", "boolean", False)
MAP = Parameter("map", "More.", "map", {}, high=2)
ALL = (COUNT, NAME, KIND, FLAG, MAP)


def test_values_are_parsed_and_defaults_fill_in() -> None:
    assert from_query((COUNT, NAME, KIND, FLAG), {"count": ["8"], "name": ["x"]}) == {
        "count": 8,
        "name": "x",
        "kind": None,
        "flag": False,
    }
    assert from_body(ALL, {"name": "x", "flag": True, "map": {"k": "v"}})["map"] == {"k": "v"}


@pytest.mark.parametrize(
    "query",
    [{}, {"name": [""]}, {"name": ["x" * 11]}, {"name": ["a\0b"]}, {"name": ["a", "b"]}, {"name": ["\ud800"]},
     {"name": ["x"], "count": ["0"]}, {"name": ["x"], "count": ["101"]}, {"name": ["x"], "count": ["1e2"]},
     {"name": ["x"], "count": ["٣"]}, {"name": ["x"], "count": ["9" * 5000]}, {"name": ["x"], "kind": ["c"]},
     {"name": ["x"], "flag": ["yes"]}, {"name": ["x"], "other": ["1"]}],
)  # fmt: skip
def test_queries_that_make_no_sense_are_refused_in_one_line(query: dict[str, list[str]]) -> None:
    with pytest.raises(Refusal) as refused:
        from_query((COUNT, NAME, KIND, FLAG), query)
    assert refused.value.status == 400
    assert "\n" not in refused.value.text


@pytest.mark.parametrize(
    "body",
    [None, [], "x", 1, {}, {"name": 1}, {"name": None}, {"name": "x", "count": True}, {"name": "x", "count": 1.0},
     {"name": "x", "flag": 1}, {"name": "x", "map": []}, {"name": "x", "map": {"k": 1}},
     {"name": "x", "map": {"k": None}},
     {"name": "x", "map": {"a": "", "b": "", "c": ""}}, {"name": "x", "map": {"\ud800": ""}}, {"name": "x", "y": 1}],
)  # fmt: skip
def test_bodies_that_make_no_sense_are_refused(body: Any) -> None:
    with pytest.raises(Refusal):
        from_body(ALL, body)


@given(st.text(max_size=12))
def test_the_document_allows_the_names_that_are_taken(name: str) -> None:
    schema = NAME.schema()
    fits = schema["minLength"] <= len(name) <= schema["maxLength"] and re.search(schema["pattern"], name)
    try:
        taken = bool(from_query((NAME,), {"name": [name]}))
    except Refusal:
        taken = False
    assert taken == bool(fits and not name.endswith("\n"))  # Python's $ also matches before a last line feed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
QUERIES = st.dictionaries(
    st.sampled_from(["limit", "offset", "search", "sort", "partition"]), st.lists(st.text())
)


@given(st.sampled_from(ROUTES), JSON, QUERIES)
def test_whatever_a_client_sends_is_taken_or_refused(
    route: Any, body: Any, query: dict[str, list[str]]
) -> None:
    for check in (lambda: from_query(route.query, query), lambda: from_body(route.body or (), body)):
        try:
            check()
        except Refusal:
            continue
