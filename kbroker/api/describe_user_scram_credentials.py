"""DescribeUserScramCredentials (key 50), v0: mechanisms and iterations of users' SCRAM credentials
(KIP-554).

No user named means all users. Salts and keys are never sent.
"""

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.control.broker import Broker
from kbroker.control.decoys import HASHES
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kbroker.protocol.slices import Repeated, distinct, emptied, paced

API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, fast_paths=(REPEATED,))


def handle(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> CachedAnswer | DescribeUserScramCredentialsResponse:
    """A result for each user."""
    names = [user.name for user in paced(request.users or ())]
    repeated = Repeated(names)
    users = distinct(names or (user for user, _ in list(ctx.broker.scram)))
    results = [_described(ctx.broker, user, user in repeated) for user in users]
    repeated.clear()
    emptied(names)
    return cached_answers(ctx, DescribeUserScramCredentialsResponse(0, ErrorCode.NONE, "", results))


def refuse(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, version: int
) -> DescribeUserScramCredentialsResponse:
    """The request failed as a whole."""
    return DescribeUserScramCredentialsResponse(0, error.code, error.own_words)


def _described(broker: Broker, user: str, repeated: bool) -> DescribeUserScramCredentialsResult:
    if repeated:
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, why)
    found = [
        CredentialInfo(mechanism, broker.scram[user, mechanism].iterations)
        for mechanism in sorted(HASHES)
        if (user, mechanism) in broker.scram
    ]
    if not found:
        why = f"Attempt to describe a user credential that does not exist: {user}"
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, why)
    return DescribeUserScramCredentialsResult(user, ErrorCode.NONE, "", found)
