"""AlterUserScramCredentials (key 51), v0: set and delete users' SCRAM credentials (KIP-554).

Flexible from the start. Each user has its own result: if one is refused, the others are changed.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.changes.scram_change import alter_scram_credentials
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kbroker.protocol.slices import distinct

API = Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)


@running
async def handle(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change each user; each has its own result."""
    results = await alter_scram_credentials(ctx.broker, request.deletions, request.upsertions)
    answer = AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user, ErrorCode.NONE, None)
            if error is None
            else AlterUserScramCredentialsResult(user, error.code, error.message)
            for user, error in results.items()
        ]
    )
    results.clear()
    return answer


def refuse(
    request: AlterUserScramCredentialsRequest, error: KafkaError, version: int
) -> AlterUserScramCredentialsResponse:
    """The request failed as a whole: every user carries the error."""
    named = distinct(one.name for part in (request.deletions, request.upsertions) for one in part)
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, error.code, error.message) for user in named]
    )
