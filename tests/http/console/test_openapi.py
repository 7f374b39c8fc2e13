"""The document says what the table of routes does."""

import json
import re
from http import HTTPStatus
from pathlib import Path

from kbroker.http.console import service
from kbroker.http.console.openapi import document
from kbroker.http.console.routes import ROUTES, find


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
    operations = [
        operation["operationId"]
        for path in document()["paths"].values()
        for operation in path.values()
        if "operationId" in operation
    ]
    assert len(operations) == len(set(operations)) == len(ROUTES)


def test_routes_are_found_by_path_and_names_stay_quoted() -> None:
    routes, names = find("/api/topics/a%2Fb/messages")
    assert set(routes) == {"GET"}
    assert names == {"topic": "a%2Fb"}
    assert set(find("/api/topics")[0]) == {"GET", "POST"}
    assert find("/api/topics/")[0] == {}
    assert find("/api/nothing")[0] == {}
