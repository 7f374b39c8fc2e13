"""Values as JSON Schema compares them."""

import json
from typing import Any


def value_text(value: Any) -> str:
    """A text that is equal for values that are equal in JSON Schema: 1 and 1.0, not 1 and true."""
    return json.dumps(_plain_numbers(value), sort_keys=True)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
