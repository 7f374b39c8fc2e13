"""ACL changes are checked, stored, sent to the network processes, then answered (KIP-140, KIP-290).

Kafka's AclControlManager and AclApis: each ACL or filter fails on its own; the valid part of a
request is stored together.
"""

from collections.abc import Sequence
from typing import Final

from kbroker.config import acls
from kbroker.config.acls import Acl, AclFilter
from kbroker.config.authorizer import Authorizer
from kbroker.control.broker import Broker
from kbroker.control.images import acl_image
from kbroker.control.store.change import MAX_CHANGES, Change
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

MAX_ANSWERED: Final = 10 * MAX_CHANGES
"""The ACLs of all filters of one answer: filters may select the same ones again and again."""
ACLS_AT_ONCE: Final = 256
"""Maximum of ACLs in one image: a network process applies it in a millisecond or two, between
requests."""
ANY_NAMES: Final = {1: "ANY"}


async def create_acls(
    broker: Broker, authorizer: Authorizer, entries: Sequence[Acl]
) -> list[KafkaError | None]:
    """Add ACLs; existing ones are no error. Raises KafkaError when nothing could be stored."""
    async with broker.changing:
        results = [_refusal(acl) for acl in paced(entries)]
        valid = (acl for acl, error in zip(entries, results, strict=True) if error is None)
        new = dict.fromkeys(acl for acl in paced(valid) if acl not in authorizer.acls)
        if len(new) > MAX_CHANGES:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Unable to perform excessively large batch operation: {len(new)} ACLs",
            )
        if new:
            await _apply(broker, authorizer, tuple(new), ())
        return list(results)


async def delete_acls(
    broker: Broker, authorizer: Authorizer, filters: Sequence[AclFilter]
) -> list[list[Acl] | KafkaError]:
    """Remove the ACLs that each filter selects; returns them. Raises KafkaError when nothing could
    be stored."""
    async with broker.changing:
        results: list[list[Acl] | KafkaError] = []
        gone: dict[Acl, None] = {}
        answered = 0
        for acl_filter in paced(filters):
            error = _filter_refusal(acl_filter)
            if error is not None:
                results.append(error)
                continue
            found = [acl for acl in paced(authorizer.acls) if acl_filter.matches(acl)]
            if answered + len(found) > MAX_ANSWERED:
                text = f"The filters of one request select more than {MAX_ANSWERED} acls."
                results.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
                continue
            if len(found) + len(gone) > MAX_CHANGES and len({*found, *gone}) > MAX_CHANGES:
                text = f"Cannot remove more than {MAX_CHANGES} acls in a single delete operation."
                results.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
                continue
            answered += len(found)
            gone.update(dict.fromkeys(found))
            results.append(found)
        if gone:
            await _apply(broker, authorizer, (), tuple(gone))
        return results


async def _apply(
    broker: Broker, authorizer: Authorizer, added: tuple[Acl, ...], removed: tuple[Acl, ...]
) -> None:
    change = Change(acls={**dict.fromkeys(added, True), **dict.fromkeys(removed, False)})
    await broker.in_store(lambda store: store.apply(change))
    for at in range(0, max(len(added), len(removed)), ACLS_AT_ONCE):
        more, fewer = added[at : at + ACLS_AT_ONCE], removed[at : at + ACLS_AT_ONCE]
        authorizer.add(more)
        authorizer.remove(fewer)
        broker.acls_changed()
        await broker.links.announce(acl_image(broker, more, fewer))


def _refusal(acl: Acl) -> KafkaError | None:
    """The reason that an ACL cannot be added."""
    text = None
    if acl.resource_type == acls.CLUSTER and acl.resource_name != acls.CLUSTER_NAME:
        text = f"The only valid name for the CLUSTER resource is {acls.CLUSTER_NAME}"
    elif not acl.resource_name:
        text = "Invalid empty resource name"
    elif acl.resource_type not in acls.RESOURCES:
        text = f"Invalid resourceType {ANY_NAMES.get(acl.resource_type, 'UNKNOWN')}"
    elif acl.pattern_type not in acls.PATTERNS:
        shown = {**ANY_NAMES, acls.MATCH: "MATCH"}.get(acl.pattern_type, "UNKNOWN")
        text = f"Invalid patternType {shown}"
    elif acl.operation not in acls.OPERATIONS:
        text = f"Invalid operation {ANY_NAMES.get(acl.operation, 'UNKNOWN')}"
    elif acl.permission not in acls.PERMISSIONS:
        text = f"Invalid permissionType {ANY_NAMES.get(acl.permission, 'UNKNOWN')}"
    elif ":" not in acl.principal:
        why = "(no colon is present separating the principal type from the principal name)"
        text = f"Could not parse principal from `{acl.principal}` {why}"
    return None if text is None else KafkaError(ErrorCode.INVALID_REQUEST, text)


def _filter_refusal(acl_filter: AclFilter) -> KafkaError | None:
    """The reason that a filter is invalid."""
    if acl_filter.resource_type not in (acls.ANY, *acls.RESOURCES) or acl_filter.pattern_type not in (
        acls.ANY,
        acls.MATCH,
        *acls.PATTERNS,
    ):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if acl_filter.operation not in (acls.ANY, *acls.OPERATIONS) or acl_filter.permission not in (
        acls.ANY,
        *acls.PERMISSIONS,
    ):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return None
