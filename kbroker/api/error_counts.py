"""Counts the error codes in control's answers for the metrics. As in Kafka, each code counts as
one."""

from collections.abc import Iterable, Iterator

from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.metrics.slots import Slots, bind
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import paced

NONE = tuple(bind("kbroker_request_errors_total", api=api, error="NONE") for api in range(ml.API_COUNT))
CODE = "error_code"
REFUSALS = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    )
)
LAST = max(ErrorCode)
Plan = tuple[tuple[str, bool], ...]
ONE_CODE: Plan = ((CODE, False),)
"""Plan of an answer that has one code, and none in nested structs."""
_PLANS: dict[type[Struct], Plan] = {}


class ErrorCounts:
    """Runs in: control and network. Owner: Dispatch, LocalAnswers."""

    def __init__(self, slots: Slots) -> None:
        self._words = slots.words

    def count_none(self, api_key: int) -> None:
        """Count an answer without an error."""
        self._words[NONE[api_key]] += 1

    def count(self, client: ClientRequest, response: Struct | bytes) -> bool:
        """Count an answer before it is sent; an encoded answer counts as no error. Returns whether
        a part of it was refused by the authorizer."""
        if isinstance(response, CachedAnswer):
            self._words[NONE[client.api_key]] += response.codes
            return False
        plan = () if isinstance(response, bytes) else _plan(type(response))
        if plan == ONE_CODE:
            codes: Iterable[int] = (getattr(response, CODE),)
        else:
            codes = error_codes(response) if plan and isinstance(response, Struct) else (0,)
        refused = False
        for code in codes:
            self._words[NONE[client.api_key] + min(code, LAST)] += 1
            if code in REFUSALS:
                refused = True
        return refused


def error_codes(answer: Struct) -> Iterator[int]:
    """Every error code in a struct and its nested structs."""
    for name, nested in _plan(type(answer)):
        value = getattr(answer, name)
        if not nested:
            yield int(value)
        elif isinstance(value, Struct):
            yield from error_codes(value)
        elif value is not None:
            for each in paced(value):
                yield from error_codes(each)


def _plan(kind: type[Struct]) -> Plan:
    """(field, whether it holds structs) of the fields that lead to error codes."""
    found = _PLANS.get(kind)
    if found is not None:
        return found
    plan = []
    for field in kind.SCHEMA.fields:
        if field.name == CODE:
            plan.append((field.name, False))
        elif field.item is not None and _holds_codes(field.item):
            plan.append((field.name, True))
    _PLANS[kind] = tuple(plan)
    return _PLANS[kind]


def _holds_codes(kind: type[Struct]) -> bool:
    return bool(_plan(kind))
