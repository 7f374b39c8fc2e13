"""What is checked of a request before anything is done with it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.metadata.topic_name import is_valid
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.routes import ROUTES, TOPIC
from kbroker.http.console.schema import INT64, MAX_VALUE_CHARACTERS, Parameter, from_body, from_query
from kbroker.protocol.bounds import MAX_TOPIC_CHARACTERS

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


@given(st.text(alphabet=".ab-_/ \n\u0088ä", max_size=4))
def test_the_document_allows_the_names_of_topics_that_the_broker_accepts(name: str) -> None:
    schema = TOPIC[0].schema()
    fits = schema["minLength"] <= len(name) and re.search(schema["pattern"], name)
    assert is_valid(name) == bool(fits and not name.endswith("\n"))  # as above


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


NUMBERS = Parameter("map", "Rates.", "numbers", low=1, high=2)
NULLS = Parameter("map", "Changes.", "map", low=1, high=2, nulls=True)


@pytest.mark.parametrize(
    ("parameter", "accepted", "refused"),
    [
        (COUNT, (1, 100), (0, 101, -1)),
        (NAME, ("x", "x" * 10, " "), ("", "x" * 11, "\x1f", "\x7f")),
        (Parameter("name", "N."), ("", "x" * MAX_TOPIC_CHARACTERS), ("x" * (MAX_TOPIC_CHARACTERS + 1),)),
        (KIND, ("a", "b"), ("", "A", "ab")),
        (FLAG, (True, False), (0, "true", None)),
        (
            MAP,
            ({}, {"a": "", "b": "x"}, {"k" * MAX_TOPIC_CHARACTERS: "v" * MAX_VALUE_CHARACTERS}),
            (
                {"a": "", "b": "", "c": ""},
                {"k" * (MAX_TOPIC_CHARACTERS + 1): ""},
                {"k": "v" * (MAX_VALUE_CHARACTERS + 1)},
                {"k": "\ud800"},
            ),
        ),
        (NULLS, ({"a": None}, {"a": "x", "b": None}), ({}, {"a": 1})),
        (
            NUMBERS,
            ({"a": 1}, {"a": 0.5, "b": None}, {"a": INT64}),
            ({}, {"a": 0}, {"a": -1}, {"a": True}, {"a": "1"}, {"a": INT64 + 1}, {"a": float("nan")}),
        ),
    ],
)
def test_a_value_within_its_bounds_is_accepted_and_the_next_one_refused(
    parameter: Parameter, accepted: tuple[Any, ...], refused: tuple[Any, ...]
) -> None:
    for value in accepted:
        assert parameter.of_json(value) == value
    for value in refused:
        with pytest.raises(Refusal):
            parameter.of_json(value)


@pytest.mark.parametrize(
    ("parameter", "schema"),
    [
        (COUNT, {"type": "integer", "minimum": 1, "maximum": 100}),
        (FLAG, {"type": "boolean"}),
        (KIND, {"type": "string", "maxLength": MAX_TOPIC_CHARACTERS, "enum": ["a", "b"]}),
        (
            NULLS,
            {
                "type": "object",
                "propertyNames": {"maxLength": MAX_TOPIC_CHARACTERS},
                "additionalProperties": {"type": ["string", "null"], "maxLength": MAX_VALUE_CHARACTERS},
                "minProperties": 1,
                "maxProperties": 2,
            },
        ),
        (
            NUMBERS,
            {
                "type": "object",
                "propertyNames": {"maxLength": MAX_TOPIC_CHARACTERS},
                "additionalProperties": {
                    "type": ["number", "null"],
                    "exclusiveMinimum": 0,
                    "maximum": INT64,
                },
                "minProperties": 1,
                "maxProperties": 2,
            },
        ),
    ],
)
def test_the_document_shows_the_bounds_of_a_parameter(parameter: Parameter, schema: dict[str, Any]) -> None:
    assert parameter.schema() == schema


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"other": ["1"]}, "unknown parameter 'other'"),
        ({"name": ["a", "b"]}, "name: given twice"),
        ({}, "name: missing"),
        ({"name": ["x"], "count": ["+1"]}, "count: expected a whole number"),
        ({"name": ["x"], "count": ["101"]}, "count: expected 1 to 100"),
        ({"name": ["x"], "flag": ["True"]}, "flag: expected true or false"),
        ({"name": ["x" * 11]}, "name: expected 1 to 10 characters"),
        ({"name": ["x"], "kind": ["c"]}, "kind: expected one of a, b"),
    ],
)
def test_a_refusal_names_the_parameter(query: dict[str, list[str]], text: str) -> None:
    with pytest.raises(Refusal) as refused:
        from_query((COUNT, NAME, KIND, FLAG), query)
    assert refused.value.text == text
