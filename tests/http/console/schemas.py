"""Holds an answer against the schema that the OpenAPI document gives for it."""

from collections.abc import Mapping
from typing import Any

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def problems(value: Any, schema: Mapping[str, Any], path: str = "answer") -> list[str]:
    """What does not fit, one line each. A member that the schema does not name is a problem,
    too."""
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kinds = tuple(kind for name in names for kind in TYPES[name])
    if not isinstance(value, kinds) or (isinstance(value, bool) and "boolean" not in names):
        return [f"{path}: {value!r} is no {'/'.join(names)}"]
    found: list[str] = []
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += problems(item, schema["items"], f"{path}[{number}]")
    elif isinstance(value, dict):
        properties = schema.get("properties")
        if properties is None:
            for key, item in value.items():
                found += problems(item, schema["additionalProperties"], f"{path}.{key}")
            return found
        found += [f"{path}: no {key}" for key in properties if key not in value]
        for key, item in value.items():
            found += (
                problems(item, properties[key], f"{path}.{key}")
                if key in properties
                else [f"{path}.{key}: ?"]
            )
    return found
