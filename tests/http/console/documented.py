"""Requests drawn from the OpenAPI document of the console, and answers held against it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.http.console.schemas import problems

Document = Mapping[str, Any]
JSON = "application/json"
KEPT = ("orders", "billing")
"""Names of what no request deletes."""
MAX_CREATED = 8
"""Partitions of a topic that a drawn request really creates."""
ONLY_VALIDATED = ("/api/settings", "/api/quotas")
"""Changes that may end the console's own connections."""
NAMES = ("orders", "single", "billing", "anna", "none", "a/b", "..", "ä €", "x" * 249)
KEYS = {
    "settings": ("retention.ms", "cleanup.policy", "segment.bytes", "log.retention.ms", "no.such"),
    "entity": ("user", "client-id", "ip", "no such"),
    "values": ("producer_byte_rate", "request_percentage", "connection_creation_rate", "no_such"),
}
VALUES = ("1000", "-1", "delete", "compact,delete", "true", "often", "")
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    "",
    "x",
    "x" * 10_000,
    "a\0b",
    [],
    [1],
    {},
    {"k": None},
    {"k": "v"},
)
WRONG_TEXTS = ("", "x", "1.5", "-1", "True", str(2**70), "9" * 30, "x" * 10_000, "a\0b", "%ff")
NO_JSON = (b"{", b"[", b"\xff", b'{"name": NaN}', b'{"name": "\\ud800"}', b"[" * 50_000, b"null", b"1e999")
CHARACTERS = st.characters(codec="utf-8", min_codepoint=32, exclude_characters="\x7f")


@dataclass(frozen=True)
class Operation:
    """A method of a path, and its description."""

    path: str
    method: str
    row: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def body(self) -> Mapping[str, Any] | None:
        """The schema of the body."""
        found = self.row.get("requestBody")
        return None if found is None else found["content"][JSON]["schema"]

    def parameters(self, where: str) -> list[Mapping[str, Any]]:
        return [each for each in self.row.get("parameters", ()) if each["in"] == where]


def operations(document: Document) -> list[Operation]:
    """All of the document, those that only read first."""
    found = [
        Operation(path, method.upper(), row)
        for path, rows in document["paths"].items()
        for method, row in rows.items()
    ]
    return sorted(found, key=lambda each: each.method)


@dataclass(frozen=True)
class Sent:
    """A request. is_valid: whether the document allows it; body: None for no body."""

    target: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_valid: bool = True


@dataclass(frozen=True)
class Received:
    """An answer; of a stream only its head."""

    status: int
    kind: str
    data: bytes


def ask(address: str, method: str, sent: Sent) -> Received:
    """One request on a connection of its own."""
    connection = HTTPConnection(address, timeout=60)
    try:
        connection.request(method, sent.target, sent.body, dict(sent.headers))
        answer = connection.getresponse()
        kind = answer.getheader("Content-Type") or ""
        return Received(answer.status, kind, answer.read() if kind == JSON else b"")
    finally:
        connection.close()


def faults(document: Document, operation: Operation, sent: Sent, received: Received) -> list[str]:
    """Deviations of an answer from the document, one line each."""
    status = str(received.status)
    described = operation.row["responses"].get(status)
    if received.status == 500 or described is None:
        return [f"status {status} is not documented"]
    if received.kind not in described["content"]:
        return [f"{status} is of type {received.kind!r}"]
    found = []
    if not sent.is_valid and not 400 <= received.status < 500:
        found.append(f"{status} for a request that the document does not allow")
    if received.kind == JSON:
        answer = json.loads(received.data)
        pointer = (*("paths", operation.path, operation.method.lower()), "responses", status, "content", JSON)
        escaped = "/".join(each.replace("~", "~0").replace("/", "~1") for each in (*pointer, "schema"))
        checker = Draft202012Validator({**document, "$ref": f"#/{escaped}"})
        found += [f"{status}: {error.json_path} {error.message}" for error in checker.iter_errors(answer)]
        found += problems(answer, resolved(document, described["content"][JSON]["schema"]))
    return found


def resolved(document: Document, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, or the one that it refers to."""
    found: Any = document
    for word in schema.get("$ref", "").split("/")[1:]:
        found = found[word]
    return found if "$ref" in schema else schema


# --- drawn requests ------------------------------------------------------------------------------------


def valid(schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    """Values that a schema of a parameter allows. name: of the parameter."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of(*(_of_kind(kind, schema, name) for kind in kinds))


def _of_kind(kind: str, schema: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
    if kind == "null":
        return st.none()
    if kind == "boolean":
        return st.booleans()
    if kind == "number":
        return st.floats(0, 2.0**62, exclude_min=True) | st.just(schema["maximum"])
    if kind == "integer":
        low, high = schema["minimum"], schema["maximum"]
        return st.sampled_from((low, high)) | st.integers(low, min(high, low + 4)) | st.integers(low, high)
    if kind == "object":
        keys = st.sampled_from(KEYS.get(name, NAMES)) | _texts({"minLength": 1, "maxLength": 12}, ())
        values = valid(schema["additionalProperties"], "value")
        low, high = schema["minProperties"], min(schema["maxProperties"], 3)
        return st.dictionaries(keys, values, min_size=low, max_size=high)
    return _texts(schema, VALUES if name == "value" else NAMES)


def _texts(schema: Mapping[str, Any], known: tuple[str, ...]) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    low, high = schema.get("minLength", 0), schema["maxLength"]
    fitting = [text for text in known if low <= len(text) <= high]
    drawn = st.text(CHARACTERS, min_size=low, max_size=min(high, 12)) | st.just("x" * high)
    return st.sampled_from(fitting) | drawn if fitting else drawn


def as_text(value: Any) -> str:
    """In a path or a query."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@st.composite
def in_text(draw: st.DrawFn, parameter: Mapping[str, Any]) -> tuple[str, bool]:
    """A parameter of a path or a query, quoted; and whether it is valid."""
    schema = parameter["schema"]
    if draw(st.integers(0, 5)):
        return quote(as_text(draw(valid(schema, parameter["name"]))), safe=""), True
    text = draw(st.sampled_from(WRONG_TEXTS))
    if parameter["in"] == "path" and not text:
        return "%00", False
    return (text, False) if text == "%ff" else (quote(text, safe=""), fits(schema, text))


def fits(schema: Mapping[str, Any], text: str) -> bool:
    """Whether a schema allows a value that stands in a path or a query."""
    if schema["type"] == "boolean":
        return text in ("true", "false")
    if schema["type"] == "integer":
        return text.lstrip("-").isdigit() and Draft202012Validator(schema).is_valid(int(text))
    return Draft202012Validator(schema).is_valid(text)


@st.composite
def targets(draw: st.DrawFn, operation: Operation) -> tuple[str, str, bool]:
    """Path and query; the name in the path, for a body that repeats it; whether both are valid."""
    path, name, is_valid = operation.path, "", True
    for parameter in operation.parameters("path"):
        text, fitting = draw(in_text(parameter))
        path, is_valid = path.replace("{" + parameter["name"] + "}", text), is_valid and fitting
        name = text
    words = []
    for parameter in operation.parameters("query"):
        if parameter["required"] or draw(st.integers(0, 2)) == 0:
            text, fitting = draw(in_text(parameter))
            words.append(f"{parameter['name']}={text}")
            is_valid = is_valid and fitting
    if operation.method == "GET" and draw(st.integers(0, 9)) == 0:
        words.append(draw(st.sampled_from(("other=1", "=", words[0] if words else "%ff=1"))))
        is_valid = False
    return path + ("?" + "&".join(words) if words else ""), name, is_valid


@st.composite
def members(draw: st.DrawFn, schema: Mapping[str, Any], name: str) -> Any:
    """The content of a body, allowed or not. name: as in the path."""
    properties = schema["properties"]
    optional = {each: valid(row, each) for each, row in properties.items() if each not in schema["required"]}
    required = {each: valid(properties[each], each) for each in schema["required"]}
    body = draw(st.fixed_dictionaries(required, optional=optional))
    if "confirm" in body and name and draw(st.booleans()):
        body["confirm"] = name
    if draw(st.integers(0, 2)):
        return body
    change = draw(st.sampled_from(("drop", "add", "replace", "other")))
    if change == "other":
        return draw(st.sampled_from(WRONG))
    if change == "add" or not body:
        return {**body, "other": draw(st.sampled_from(WRONG))}
    victim = draw(st.sampled_from(sorted(body)))
    if change == "drop":
        return {each: value for each, value in body.items() if each != victim}
    return {**body, victim: draw(st.sampled_from(WRONG))}


def harmless(operation: Operation, body: Any) -> Any:
    """A change that would harm the test itself is only validated, or not confirmed."""
    if not isinstance(body, dict):
        return body
    if body.get("confirm") in KEPT:
        return {**body, "confirm": "none"}
    count = body.get("partitions")
    is_large = isinstance(count, int) and count > MAX_CREATED
    if is_large or (operation.path in ONLY_VALIDATED and operation.method == "POST"):
        return {**body, "validate_only": True}
    return body


@st.composite
def requests(draw: st.DrawFn, operation: Operation, headers: Mapping[str, str]) -> Sent:
    """headers: those that every change needs."""
    target, name, is_valid = draw(targets(operation))
    if operation.body is None:
        return Sent(target, is_valid=is_valid)
    given = {**headers, "Content-Type": JSON}
    spoiled = draw(st.sampled_from(("", "", "", "", "", "", "token", "type", "json")))
    if spoiled == "json":
        return Sent(target, draw(st.sampled_from(NO_JSON)), given, is_valid=False)
    if spoiled == "type":
        given["Content-Type"] = "text/plain"
    elif spoiled == "token" and operation.parameters("header"):
        del given["X-CSRF-Token"]
    content = harmless(operation, draw(members(operation.body, name)))
    is_valid = is_valid and given == {**headers, "Content-Type": JSON}
    is_valid = is_valid and Draft202012Validator(operation.body).is_valid(content)
    return Sent(target, json.dumps(content).encode(), given, is_valid)
