"""ACLs of a broker, with the broker's own message classes: confluent-kafka lacks users and
delegation tokens as resources, and their operations."""

from collections.abc import Sequence
from typing import Final

from kbroker.cli.connection import Connection
from kbroker.cli.failures import broker_error, check_answer, raise_first
from kbroker.cli.output import say
from kbroker.cli.own_requests import ask_broker_each
from kbroker.config.acls import ANY, Acl, AclFilter
from kbroker.config.counts import counted
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest

EVERYTHING: Final = AclFilter(ANY, None, ANY, None, None, ANY, ANY)


def all_acls(broker: Connection) -> list[Acl]:
    """Every ACL. Raises CommandFailed, for a broker without an authorizer too."""
    return matching_acls(broker, [EVERYTHING])


def matching_acls(broker: Connection, filters: Sequence[AclFilter]) -> list[Acl]:
    """The ACLs that one of the filters selects, each once. Raises CommandFailed."""
    requests = [DescribeAclsRequest(*each) for each in filters]
    found: dict[Acl, None] = {}
    for answer in ask_broker_each(broker, ApiKey.DESCRIBE_ACLS, requests):
        check_answer(answer)
        for resource in answer.resources:
            pattern = resource.resource_type, resource.resource_name, resource.pattern_type
            found |= dict.fromkeys(
                Acl(*pattern, acl.principal, acl.host, acl.operation, acl.permission_type)
                for acl in resource.acls
            )
    return list(found)


def create_acls(broker: Connection, entries: Sequence[Acl]) -> None:
    """Add ACLs. Raises CommandFailed if the broker refuses some; then it prints how many were added
    nevertheless."""
    request = CreateAclsRequest([AclCreation(*entry) for entry in entries])
    (answer,) = ask_broker_each(broker, ApiKey.CREATE_ACLS, [request])
    refused = [
        broker_error(result.error_code, result.error_message, f"{entry.principal} on {entry.resource_name}")
        for entry, result in zip(entries, answer.results, strict=False)
        if result.error_code
    ]
    if 0 < len(refused) < len(entries):
        say(f"{counted(len(entries) - len(refused), 'ACL')} added")
    raise_first(refused)


def delete_acls(broker: Connection, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete the ACLs that one of the filters selects. Returns them. Raises CommandFailed."""
    request = DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])
    (answer,) = ask_broker_each(broker, ApiKey.DELETE_ACLS, [request])
    gone: dict[Acl, None] = {}
    for result in answer.filter_results:
        check_answer(result)
        for acl in result.matching_acls:
            check_answer(acl)
            pattern = acl.resource_type, acl.resource_name, acl.pattern_type
            gone[Acl(*pattern, acl.principal, acl.host, acl.operation, acl.permission_type)] = None
    return list(gone)
