"""AlterClientQuotas (key 49), v0-1: set and remove quotas of users, client ids and addresses
(KIP-546).

v1 flexible. Keys: producer_byte_rate, consumer_byte_rate, request_percentage,
controller_mutation_rate (KIP-599) for users and client ids, connection_creation_rate (KIP-612) for
addresses. Quotas are in force when the answer is sent.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.config.client_quotas import Entity, entity_of
from kbroker.control.changes.client_quota_change import QuotaAlteration, alter_client_quotas
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from kbroker.protocol.slices import SHORT, emptying, paced

API = Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1)


@running
async def handle(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change each entity; each has its own result."""
    alterations = [
        QuotaAlteration(_entity(entry), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    long = [each.operations for each in paced(alterations) if len(each.operations) > SHORT]
    with emptying(*long, alterations):
        results = await alter_client_quotas(ctx.broker, alterations, request.validate_only)
    entries = [_result(entity, why) for entity, why in results.items()]
    results.clear()
    return AlterClientQuotasResponse(entries=entries)


def refuse(request: AlterClientQuotasRequest, error: KafkaError, version: int) -> AlterClientQuotasResponse:
    """The request failed as a whole: every entity carries the error."""
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error.code, error.message, [ResponseEntityData(*pair) for pair in _entity(entry)]
            )
            for entry in paced(request.entries)
        ]
    )


def _entity(entry: RequestEntryData) -> Entity:
    return entity_of((part.entity_type, part.entity_name) for part in entry.entity)


def _result(entity: Entity, why: str | None) -> ResponseEntryData:
    code = ErrorCode.NONE if why is None else ErrorCode.INVALID_REQUEST
    return ResponseEntryData(code, why, [ResponseEntityData(*pair) for pair in entity])
