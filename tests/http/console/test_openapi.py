"""The document says what the table of routes does."""

import json
import re
from http import HTTPStatus
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kbroker.http.console import service
from kbroker.http.console.openapi import document
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Route
from kbroker.http.console.routes import ROUTES, find
from kbroker.http.console.schema import from_body


def test_every_route_is_documented_with_its_parameters() -> None:
    paths = document()["paths"]
    for route in ROUTES:
        operation = paths[route.path][route.method.lower()]
        names = {each["name"] for each in operation.get("parameters", [])} - {"X-CSRF-Token"}
        assert names == {each.name for each in (*route.in_path, *route.query)}
        assert operation["responses"]["200"]["content"]["application/json"]["schema"] == route.result
        if route.body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert set(schema["properties"]) == {each.name for each in route.body}
    json.dumps(document(), allow_nan=False)


def test_every_status_of_a_refusal_is_documented() -> None:
    folder = Path(service.__file__).parent
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    used = {str(HTTPStatus[name].value) for name in re.findall(r"HTTPStatus\.([A-Z_]+)", text)}
    failures = {status for status in used if status >= "400"}
    assert {"405", "415"} <= failures
    for path in document()["paths"].values():
        for operation in path.values():
            assert failures <= set(operation["responses"])


def test_operations_have_names_of_their_own() -> None:
    operations = [each for path in document()["paths"].values() for each in path.values()]
    names = {each["operationId"] for each in operations}
    assert len(operations) == len(names) > len(ROUTES)


def test_routes_are_found_by_path_and_names_stay_quoted() -> None:
    routes, names = find("/api/topics/a%2Fb/messages")
    assert set(routes) == {"GET"}
    assert names == {"topic": "a%2Fb"}
    assert set(find("/api/topics")[0]) == {"GET", "POST"}
    assert find("/api/topics/")[0] == {}
    assert find("/api/nothing")[0] == {}


def test_every_change_names_its_token_and_its_body() -> None:
    paths = document()["paths"]
    posts = {path: found["post"] for path, found in paths.items() if "post" in found}
    assert {"/api/login", "/api/logout", "/api/settings"} <= set(posts)
    for path, operation in posts.items():
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert schema["additionalProperties"] is False, path
        headers = [each["name"] for each in operation.get("parameters", []) if each["in"] == "header"]
        assert headers == ([] if path == "/api/login" else ["X-CSRF-Token"]), path
    login = posts["/api/login"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(login["required"]) == {"user", "password"}


def test_a_change_of_settings_without_settings_is_documented_as_invalid() -> None:
    paths = document()["paths"]
    for path in ("/api/settings", "/api/topics/{topic}/settings"):
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["settings"]["minProperties"] == 1
        assert schema["required"] == ["settings"]


EXTREMES: tuple[object, ...] = (
    None,
    True,
    -1,
    2**70,
    "",
    "x",
    "x" * 10_000,
    "a\0b",
    [],
    {},
    {"k": None},
    {"k": "v"},
    {"k" * 300: "v"},
)


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.body is not None], ids=lambda one: one.path
)
@given(st.data())
def test_the_document_and_the_checks_agree_about_bodies(route: Route, data: st.DataObject) -> None:
    """A body that the document allows is taken, any other one is refused."""
    assert route.body is not None
    names = [each.name for each in route.body]
    body = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), st.sampled_from(EXTREMES)))
    schema = document()["paths"][route.path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    allowed = Draft202012Validator(schema).is_valid(body)
    try:
        taken = bool(from_body(route.body, body))
    except Refusal:
        taken = False
    assert taken == allowed
