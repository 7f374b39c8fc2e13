"""The same requests to any schema registry, one after the other, and its answers:
`python -m tests.compat.registry_script http://HOST:PORT NAME` writes them to recorded/NAME.json.

The registry has to be empty. Of an error, its status and code count, not its text; of a list and of
the members of a schema, not their order."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.compat.registry_requests import ask

RECORDED = Path(__file__).parent / "recorded"
Request = tuple[str, str, Any]
Answer = tuple[int, Any]


def _record(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}
SIZE = {"name": "size", "type": "int"}
FIRST, SECOND, BROKEN = _record(ID), _record(ID, NOTE), _record(ID, SIZE)
OPEN = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
WIDER = json.dumps({"type": "object", "properties": {"id": {"type": "number"}}})
PROTO = 'syntax = "proto3";\nmessage Order {\n  int64 id = 1;\n}\n'
PROTO_TEXT = PROTO.replace("int64", "string")
ITEM, CART = _record(ID, name="Item"), _record({"name": "item", "type": "Item"}, name="Cart")
REFERENCE = [{"name": "Item", "subject": "item", "version": 1}]
VERSIONS = "/subjects/orders/versions"
CHECK = "/compatibility/subjects/orders/versions"


def _avro(schema: str, **more: Any) -> dict[str, Any]:
    return {"schema": schema, **more}


REQUESTS: tuple[Request, ...] = (
    ("GET", "/subjects", None),
    ("GET", "/config", None),
    ("GET", "/schemas/types", None),
    ("POST", VERSIONS, _avro(FIRST)),
    ("POST", VERSIONS, _avro(FIRST)),  # again
    ("POST", "/subjects/others/versions", _avro(FIRST)),  # the same schema
    ("GET", VERSIONS, None),
    ("GET", f"{VERSIONS}/1", None),
    ("GET", f"{VERSIONS}/latest", None),
    ("GET", f"{VERSIONS}/1/schema", None),
    ("GET", f"{VERSIONS}/2", None),
    ("GET", f"{VERSIONS}/0", None),
    ("GET", f"{VERSIONS}/first", None),
    ("GET", "/subjects/none/versions", None),
    ("GET", "/subjects/none/versions/1", None),
    ("GET", "/schemas/ids/1", None),
    ("GET", "/schemas/ids/99", None),
    ("GET", "/schemas/ids/1/versions", None),
    ("POST", "/subjects/orders", _avro(FIRST)),
    ("POST", "/subjects/orders", _avro(SECOND)),
    ("POST", "/subjects/none", _avro(FIRST)),
    ("POST", f"{CHECK}/latest", _avro(SECOND)),
    ("POST", f"{CHECK}/latest", _avro(BROKEN)),
    ("POST", f"{CHECK}/9", _avro(SECOND)),
    ("POST", VERSIONS, _avro(BROKEN)),
    ("POST", VERSIONS, _avro(SECOND)),
    ("GET", VERSIONS, None),
    ("POST", VERSIONS, _avro('{"type": "nothing"}')),
    ("POST", VERSIONS, _avro("{")),
    ("POST", VERSIONS, _avro(FIRST, schemaType="UNKNOWN")),
    ("GET", "/config/orders", None),
    ("PUT", "/config/orders", {"compatibility": "NONE"}),
    ("GET", "/config/orders", None),
    ("PUT", "/config/orders", {"compatibility": "SIDEWAYS"}),
    ("POST", VERSIONS, _avro(BROKEN)),  # at this level anything goes
    ("DELETE", "/config/orders", None),
    ("PUT", "/config", {"compatibility": "FULL"}),
    ("GET", "/config", None),
    ("PUT", "/config", {"compatibility": "BACKWARD"}),
    ("POST", "/subjects/open/versions", _avro(OPEN, schemaType="JSON")),
    ("POST", "/subjects/open/versions", _avro(WIDER, schemaType="JSON")),
    ("POST", "/subjects/open/versions", _avro(OPEN, schemaType="JSON")),
    ("POST", "/subjects/proto/versions", _avro(PROTO, schemaType="PROTOBUF")),
    ("POST", "/subjects/proto/versions", _avro(PROTO_TEXT, schemaType="PROTOBUF")),
    ("POST", "/subjects/proto/versions", _avro("message {", schemaType="PROTOBUF")),
    ("GET", "/subjects/proto/versions", None),
    ("POST", "/subjects/item/versions", _avro(ITEM)),
    ("POST", "/subjects/cart/versions", _avro(CART, references=REFERENCE)),
    ("POST", "/subjects/lost/versions", _avro(CART)),
    ("GET", "/subjects/item/versions/1/referencedby", None),
    ("DELETE", "/subjects/item/versions/1", None),
    ("GET", "/subjects", None),
    ("DELETE", f"{VERSIONS}/1?permanent=true", None),
    ("DELETE", f"{VERSIONS}/1", None),
    ("DELETE", f"{VERSIONS}/1", None),
    ("GET", f"{VERSIONS}/1", None),
    ("GET", f"{VERSIONS}?deleted=true", None),
    ("DELETE", f"{VERSIONS}/1?permanent=true", None),
    ("DELETE", f"{VERSIONS}/9", None),
    ("DELETE", "/subjects/orders", None),
    ("DELETE", "/subjects/orders", None),
    ("GET", "/subjects", None),
    ("GET", "/subjects?deleted=true", None),
    ("DELETE", "/subjects/orders?permanent=true", None),
    ("DELETE", "/subjects/none", None),
    ("GET", "/mode", None),
    ("GET", "/mode/orders", None),
    ("POST", VERSIONS, _avro(FIRST)),
    ("GET", VERSIONS, None),
)


def answers(url: str) -> list[Answer]:
    """A registry's answers to all requests."""
    return [comparable(*ask(url + path, body, method=method)) for method, path, body in REQUESTS]


def comparable(status: int, body: Any) -> Answer:
    """What has to be the same: texts of errors and the order of a list are not."""
    if status >= 400:
        return status, body.get("error_code") if isinstance(body, dict) else body
    if isinstance(body, list):
        return status, sorted(body, key=json.dumps)
    if isinstance(body, dict) and "messages" in body:
        return status, {"is_compatible": body["is_compatible"]}
    if isinstance(body, dict) and str(body.get("schema", "")).startswith("{"):
        return status, body | {"schema": json.loads(body["schema"])}
    return status, body


def name_of(request: Request) -> str:
    """A request in one line."""
    method, path, body = request
    return f"{method} {path}" + ("" if body is None else f" {json.dumps(body)[:60]}")


if __name__ == "__main__":
    content = [
        {"request": name_of(request), "answer": list(answer)}
        for request, answer in zip(REQUESTS, answers(sys.argv[1]), strict=True)
    ]
    (RECORDED / f"{sys.argv[2]}.json").write_text(json.dumps(content, indent=1) + "\n")
