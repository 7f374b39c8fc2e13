"""The OpenAPI document of the table of routes."""

from collections.abc import Mapping
from typing import Any

from kbroker import __version__
from kbroker.http.console.request import Route
from kbroker.http.console.routes import ROUTES
from kbroker.http.console.schema import BOOL, TEXT, Parameter, fields, maybe

ERROR = fields(error=TEXT, message=TEXT)
SESSION = fields(access=TEXT, user=maybe(TEXT), csrf=maybe(TEXT), readonly=BOOL, version=TEXT)
FAILURES = {
    "400": "The request is invalid, or the broker refuses it.",
    "401": "Log in first.",
    "403": "Not allowed.",
    "404": "Not there.",
    "405": "The path does not support this method.",
    "409": "The state of the group or topic does not allow it.",
    "411": "A request with a body needs a Content-Length.",
    "413": "The body is too large.",
    "415": "The body must be JSON.",
    "421": "On loopback the console only accepts loopback names in the Host header.",
    "429": "Too many requests.",
    "500": "The console failed; see the broker's log.",
    "502": "The broker failed.",
    "503": "The broker cannot be reached now.",
    "504": "The broker took too long.",
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths |= _others()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kbroker",
            "version": __version__,
            "description": "What kbroker's console shows and changes. A POST needs the header X-CSRF-Token with the "
            "csrf of /api/session, and an Origin of this server.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": ERROR, "Session": SESSION}},
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": route.summary,
        "tags": [route.tag],
        "operationId": f"{route.method.lower()}{route.path.replace('/api/', '_').replace('/', '_')}".replace(
            "{", ""
        ).replace("}", ""),
        "responses": {"200": _json("The answer.", route.result), **_failures()},
    }
    parameters = [_parameter(each, "path") for each in route.in_path]
    parameters += [_parameter(each, "query") for each in route.query]
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _body(route.body)}},
        }
        found["parameters"] = [
            *parameters,
            {"name": "X-CSRF-Token", "in": "header", "required": True, "schema": TEXT},
        ]
    return found


def _parameter(parameter: Parameter, where: str) -> dict[str, Any]:
    schema = dict(parameter.schema())
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": where,
        "required": where == "path" or parameter.required,
        "description": parameter.text,
        "schema": schema,
    }


def _body(parameters: tuple[Parameter, ...]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: {**each.schema(), "description": each.text} for each in parameters},
        "required": [each.name for each in parameters if each.required],
        "additionalProperties": False,
    }


def _json(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _failures() -> dict[str, Any]:
    error = {"$ref": "#/components/schemas/Error"}
    return {status: _json(text, error) for status, text in FAILURES.items()}


def _stream(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    stream = {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": TEXT}}}
    return {
        "get": {
            "summary": summary,
            "tags": ["streams"],
            "parameters": parameters,
            "responses": {"200": stream, **_failures()},
        }
    }


def _others() -> dict[str, Any]:
    """Paths that are not in the table: sessions and streams."""
    from kbroker.http.console.routes import TOPIC
    from kbroker.http.console.views.messages import FILTERS

    session = {"$ref": "#/components/schemas/Session"}
    login = fields(user=TEXT, password=TEXT)
    tail = [_parameter(TOPIC[0], "path"), *(_parameter(each, "query") for each in FILTERS)]
    body = {"required": True, "content": {"application/json": {"schema": login}}}
    return {
        "/api/session": {
            "get": _session("The user of the session, and the console's capabilities.", session)
        },
        "/api/login": {
            "post": _session("Log in as a SCRAM user of the broker.", session) | {"requestBody": body}
        },
        "/api/logout": {"post": _session("End the session.", session)},
        "/api/events": _stream("A sample of the overview each second.", []),
        "/api/topics/{topic}/tail": _stream("New messages of a topic, as they are written.", tail),
    }


def _session(summary: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "summary": summary,
        "tags": ["session"],
        "responses": {"200": _json("The session.", schema), **_failures()},
    }
