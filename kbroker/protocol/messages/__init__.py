"""The messages of every API. A class is imported when first asked for."""

import importlib
from functools import cache

from kbroker.protocol.messages.index import APIS
from kbroker.protocol.schema import Struct


@cache
def request_class(api_key: int) -> type[Struct]:
    """The request of an API; KeyError for an unknown key."""
    api = APIS[api_key]
    found: type[Struct] = getattr(
        importlib.import_module(f"kbroker.protocol.messages.{api.module}"), api.request
    )
    return found


@cache
def response_class(api_key: int) -> type[Struct]:
    """The response of an API; KeyError for an unknown key."""
    api = APIS[api_key]
    module = importlib.import_module(f"kbroker.protocol.messages.{api.module}")
    found: type[Struct] = getattr(module, api.response)
    return found
