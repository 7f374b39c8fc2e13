"""Keys and values with schema ids."""

import json
from typing import Any

ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[]}'


def key(subject: str, version: int) -> bytes:
    return json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}).encode()


def value(subject: str, version: int, id_: int, **more: Any) -> bytes:
    fields = {"subject": subject, "version": version, "id": id_, "schema": ORDER, "deleted": False}
    return json.dumps(fields | more).encode()
