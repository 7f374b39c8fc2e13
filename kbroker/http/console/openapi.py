"""The OpenAPI document of the table of routes."""

from collections.abc import Mapping
from typing import Any

from kbroker import __version__
from kbroker.http.console.request import Route
from kbroker.http.console.routes import ROUTES
from kbroker.http.console.schema import BOOL, TEXT, Parameter, fields, maybe
from kbroker.http.console.sessions import LOGIN

ERROR = fields(error=TEXT, message=TEXT)
SESSION = fields(access=TEXT, user=maybe(TEXT), csrf=maybe(TEXT), readonly=BOOL, version=TEXT)
CSRF: Mapping[str, Any] = {"name": "X-CSRF-Token", "in": "header", "required": True, "schema": TEXT}
"""A parameter of each change."""
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
        found["requestBody"] = _request_body(route.body)
        found["parameters"] = [*parameters, CSRF]
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


def _request_body(parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {each.name: {**each.schema(), "description": each.text} for each in parameters},
        "required": [each.name for each in parameters if each.required],
        "additionalProperties": False,
    }
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _json(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _failures() -> dict[str, Any]:
    error = {"$ref": "#/components/schemas/Error"}
    return {status: _json(text, error) for status, text in FAILURES.items()}


def _stream(name: str, summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    stream = {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": TEXT}}}
    return {
        "get": {
            "summary": summary,
            "tags": ["streams"],
            "operationId": name,
            "parameters": parameters,
            "responses": {"200": stream, **_failures()},
        }
    }


def _others() -> dict[str, Any]:
    """Paths that are not in the table: sessions and streams."""
    from kbroker.http.console.routes import TOPIC
    from kbroker.http.console.views.messages import FILTERS

    tail = [_parameter(TOPIC[0], "path"), *(_parameter(each, "query") for each in FILTERS)]
    logout = "End the session. Where the console needs no login, nothing ends."
    return {
        "/api/session": {
            "get": _session("getSession", "The user of the session, and the console's capabilities.")
        },
        "/api/login": {
            "post": _session("login", "Log in as a SCRAM user of the broker. Sets the cookie of the session.")
            | {"requestBody": _request_body(LOGIN)}
        },
        "/api/logout": {
            "post": _session("logout", logout) | {"parameters": [CSRF], "requestBody": _request_body(())}
        },
        "/api/events": _stream("getEvents", "A sample of the overview each second.", []),
        "/api/topics/{topic}/tail": _stream("getTail", "New messages of a topic, as they are written.", tail),
    }


def _session(name: str, summary: str) -> dict[str, Any]:
    session = {"$ref": "#/components/schemas/Session"}
    return {
        "summary": summary,
        "tags": ["session"],
        "operationId": name,
        "responses": {"200": _json("The session.", session), **_failures()},
    }
