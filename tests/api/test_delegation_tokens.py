"""Requests about delegation tokens: the clients that may send them, the tokens that each sees, and
the answers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kbroker.api.describe_delegation_token import API as DESCRIBE
from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kbroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kbroker.protocol.schema import Struct
from tests.api.in_process import client_request, dispatch_of
from tests.api.kept_lines import Kept
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import World, world

REQUESTS: dict[ApiKey, tuple[int, Struct]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: (3, CreateDelegationTokenRequest(None, None, [], -1)),
    ApiKey.RENEW_DELEGATION_TOKEN: (2, RenewDelegationTokenRequest(b"x", -1)),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (2, ExpireDelegationTokenRequest(b"x", -1)),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (3, DescribeDelegationTokenRequest(None)),
}
ANN = "User:ann"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, {"delegation.token.secret.key": "s3cret"}) as one:
        yield with_listeners(one)


def with_listeners(made: World) -> World:
    """Settings with a listener of each security protocol."""
    for protocol in SecurityProtocol:
        made.broker.nodes.endpoints[protocol.name] = Endpoint(protocol.name, protocol, "127.0.0.1", 9092)
    return made


def ask(
    made: World,
    api: ApiKey,
    version: int,
    request: Struct,
    principal: str = ANN,
    listener: str = "SASL_PLAINTEXT",
    by_token: bool = False,
) -> Any:
    """The decoded answer to a client."""

    async def send() -> Any:
        client = structs.replace(
            client_request(api, version, encode(request, version)),
            principal=principal,
            listener=listener,
            token_authenticated=by_token,
        )
        return await answer_of(dispatch_of(made.broker)(client))

    frame = asyncio.run(send())
    _, start = parse_response(frame[4:], api, version)
    return decode_exact(response_class(api), version, frame[4:], start)


def create(made: World, principal: str = ANN, **fields: Any) -> Any:
    request = CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields})
    return ask(made, ApiKey.CREATE_DELEGATION_TOKEN, 3, request, principal)


def described(made: World, principal: str, owners: list[str] | None = None) -> set[str]:
    """Ids of the tokens that a principal sees."""
    named = None if owners is None else [DescribeDelegationTokenOwner("User", name) for name in owners]
    request = DescribeDelegationTokenRequest(named)
    answer = ask(made, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request, principal)
    assert answer.error_code == ErrorCode.NONE
    return {token.token_id for token in answer.tokens}


@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name)
def test_an_unauthenticated_client_is_refused(made: World, api: ApiKey) -> None:
    version, request = REQUESTS[api]

    def error(**how: Any) -> int:
        return int(ask(made, api, version, request, **how).error_code)

    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert error(listener="PLAINTEXT") == refused
    assert error(listener="SSL", principal="User:ANONYMOUS") == refused
    for listener in ("SASL_PLAINTEXT", "SASL_SSL", "SSL"):
        assert error(listener=listener) != refused, "logged in, or with a certificate"
        assert error(listener=listener, by_token=True) == refused, "a token begets no token"


@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name)
def test_without_a_secret_tokens_are_disabled(tmp_path: Path, api: ApiKey) -> None:
    version, request = REQUESTS[api]
    with world(tmp_path) as made:
        answer = ask(with_listeners(made), api, version, request)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert getattr(answer, "expiry_timestamp_ms", 0) == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_token_is_answered_with_its_hmac(made: World, version: int) -> None:
    request = CreateDelegationTokenRequest("", "", [CreatableRenewers("User", "bob")], 5000)
    answer = ask(made, ApiKey.CREATE_DELEGATION_TOKEN, version, request)
    (token,) = made.broker.tokens
    assert (answer.error_code, answer.token_id) == (ErrorCode.NONE, token.token_id)
    assert answer.hmac == made.broker.tokens.hmac_of(token.token_id)
    assert (answer.principal_type, answer.principal_name) == ("User", "ann")
    assert answer.token_requester_principal_name == ("ann" if version == 3 else "")
    times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    assert times == (token.issued_ms, token.expiry_ms, token.max_ms)
    assert token.renewers == ("User:bob",)


def test_a_renewer_that_is_no_user_is_refused(made: World) -> None:
    answer = create(made, renewers=[CreatableRenewers("User", "bob"), CreatableRenewers("Group", "g")])
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (answer.principal_name, answer.expiry_timestamp_ms) == ("ann", -1)
    assert not list(made.broker.tokens)


def test_an_owner_without_a_type_is_an_error_and_no_traceback(made: World) -> None:
    answer = create(made, owner_principal_type=None, owner_principal_name="bob")
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (answer.principal_name, answer.expiry_timestamp_ms) == ("ANONYMOUS", -1)


def test_a_token_is_renewed_and_expired_by_its_hmac(made: World) -> None:
    hmac = create(made).hmac
    renewed = ask(made, ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(hmac, 1000))
    (token,) = made.broker.tokens
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (ErrorCode.NONE, token.expiry_ms)
    request = ExpireDelegationTokenRequest(hmac, -1)
    stranger = ask(made, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request, "User:eve")
    assert (stranger.error_code, stranger.expiry_timestamp_ms) == (
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        0,
    )
    expired = ask(made, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request)
    assert expired.error_code == ErrorCode.NONE
    assert token.issued_ms <= expired.expiry_timestamp_ms < renewed.expiry_timestamp_ms
    again = ask(made, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request)
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_for_another_user_needs_a_permission_on_that_user(made: World) -> None:
    for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    assert create(made, **for_bob).error_code == ErrorCode.NONE, "without an authorizer everybody may"
    made.broker.authorizer = Authorizer(frozenset(("User:admin",)))
    refused = create(made, **for_bob)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "ann")
    assert refused.expiry_timestamp_ms == -1
    assert create(made, owner_principal_type="User", owner_principal_name="ann").error_code == ErrorCode.NONE
    assert create(made, "User:admin", **for_bob).error_code == ErrorCode.NONE
    made.broker.authorizer.add([_allowed(acls.USER, "User:bob", acls.CREATE_TOKENS)])
    assert create(made, **for_bob).error_code == ErrorCode.NONE


def test_a_client_sees_its_own_tokens_and_those_that_it_may_describe(made: World) -> None:
    own = create(made, renewers=[CreatableRenewers("User", "renewer")]).token_id
    bobs = create(made, "User:admin", owner_principal_type="User", owner_principal_name="bob").token_id
    assert described(made, "User:eve") == {own, bobs}, "without an authorizer everybody sees all"
    made.broker.authorizer = Authorizer(frozenset(("User:root",)))
    assert described(made, ANN) == described(made, "User:renewer") == {own}
    assert described(made, "User:bob") == described(made, "User:admin") == {bobs}
    assert described(made, "User:eve") == set()
    assert described(made, "User:root") == {own, bobs}
    made.broker.authorizer.add([_allowed(acls.DELEGATION_TOKEN, own, acls.DESCRIBE, "User:eve")])
    assert described(made, "User:eve") == {own}
    made.broker.authorizer.add([_allowed(acls.USER, "User:bob", acls.DESCRIBE_TOKENS, "User:eve")])
    assert described(made, "User:eve") == {own, bobs}
    assert described(made, "User:eve", ["bob", "nobody"]) == {bobs}
    assert described(made, "User:eve", []) == set()


@pytest.mark.parametrize("version", range(DESCRIBE.min_version, DESCRIBE.max_version + 1))
def test_a_described_token_has_all_fields_of_its_creation(made: World, version: int) -> None:
    token = create(made, renewers=[CreatableRenewers("User", "bob")], max_lifetime_ms=7000)
    (found,) = ask(
        made, ApiKey.DESCRIBE_DELEGATION_TOKEN, version, DescribeDelegationTokenRequest(None)
    ).tokens
    assert (found.token_id, found.hmac) == (token.token_id, token.hmac)
    assert found.max_timestamp - found.issue_timestamp == 7000
    assert found.expiry_timestamp == token.expiry_timestamp_ms
    assert [renewer.principal_name for renewer in found.renewers] == ["bob"]
    assert found.token_requester_principal_name == ("ann" if version == 3 else "")


def test_the_audit_log_says_whose_token_was_made_and_never_its_hmac(made: World) -> None:
    kept = made.services.audit = Kept()
    token = create(made, owner_principal_type="User", owner_principal_name="bob")
    ask(made, ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(token.hmac, 77))
    creation, renewal = kept.lines
    assert creation["principal"] == ANN
    assert creation["request"]["owner_principal_name"] == "bob"
    assert creation["resources"] == [{"name": token.token_id, "error": "NONE"}]
    assert renewal["request"] == {"renew_period_ms": 77}
    assert renewal["errors"] == {"DELEGATION_TOKEN_OWNER_MISMATCH": 1}
    assert str(token.hmac) not in str(kept.lines)


def _allowed(kind: int, name: str, operation: int, principal: str = ANN) -> Acl:
    return Acl(kind, name, acls.LITERAL, principal, "*", operation, acls.ALLOW)
