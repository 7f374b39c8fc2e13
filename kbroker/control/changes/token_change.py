"""Changing delegation tokens: checked, stored, then valid for every login after the answer (KIP-48,
KIP-373).

Kafka's DelegationTokenControlManager. The APIs check whether the client may make the request.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from kbroker.config.setting import LONG_MAX
from kbroker.control.broker import Broker
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.control.store.change import Change
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.kafka_uuid import random_uuid
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)

MAX_PRINCIPALS_CHARACTERS: Final = 1 << 14
"""Maximum of all names in one token together."""
MAX_TOKENS_OF_REQUESTER: Final = 10_000
"""Each is held in memory until it expires."""
REMOVED_AT_ONCE: Final = 1000


async def create_token(
    broker: Broker, owner: str, requester: str, renewers: tuple[str, ...], lifetime_ms: int
) -> DelegationToken:
    """A new token. lifetime_ms: until it cannot be renewed any more; 0 or less is the broker's
    maximum. Raises KafkaError."""
    tokens = broker.tokens
    _require_secret(broker)
    if len(owner) + len(requester) + sum(map(len, paced(renewers))) > MAX_PRINCIPALS_CHARACTERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The principals of the token are too many or too long")
    async with broker.changing:
        if tokens.requested_by(requester) >= MAX_TOKENS_OF_REQUESTER:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "The requester has too many delegation tokens")
        now_ms = broker.now_ms()
        requested_ms = min(lifetime_ms, tokens.max_lifetime_ms) if lifetime_ms > 0 else tokens.max_lifetime_ms
        max_ms = min(now_ms + requested_ms, LONG_MAX)
        expiry_ms = min(now_ms + tokens.renewal_ms, max_ms)
        token = DelegationToken(random_uuid(), owner, requester, renewers, now_ms, max_ms, expiry_ms)
        await _apply(broker, {token.token_id: token})
        return token


async def renew_token(broker: Broker, principal: str, hmac: bytes, period_ms: int) -> int:
    """Give a token more time: the requested period, limited by the broker's, which is also the
    default. Returns the new expiry time. Raises KafkaError."""
    async with broker.changing:
        now_ms = broker.now_ms()
        token = _of_hmac(broker, hmac)
        _require_in_force(token, now_ms)
        _require_managed(token, principal)
        max_ms = broker.tokens.renewal_ms
        renewal_ms = min(period_ms, max_ms) if period_ms > 0 else max_ms
        return await _expire_at(broker, token, now_ms + renewal_ms)


async def expire_token(broker: Broker, principal: str, hmac: bytes, period_ms: int) -> int:
    """Let a token expire after the period, or at once if the period is negative, which also removes
    an expired token. Returns the expiry time. Raises KafkaError."""
    async with broker.changing:
        now_ms = broker.now_ms()
        token = _of_hmac(broker, hmac)
        _require_managed(token, principal)
        if period_ms < 0:
            await _apply(broker, {token.token_id: None})
            return now_ms
        _require_in_force(token, now_ms)
        return await _expire_at(broker, token, now_ms + period_ms)


async def remove_expired(broker: Broker, now_ms: int) -> None:
    """Remove expired tokens. Raises KafkaError."""
    expired = [token for token in broker.tokens if token.has_expired(now_ms)]
    for first in range(0, len(expired), REMOVED_AT_ONCE):
        async with broker.changing:
            gone = {
                token.token_id: None
                for token in expired[first : first + REMOVED_AT_ONCE]
                if (now := broker.tokens.get(token.token_id)) is not None and now.has_expired(now_ms)
            }
            await _apply(broker, gone)
    if expired:
        log.info("%d delegation tokens have expired", len(expired))


async def keep_removing_expired(broker: Broker) -> None:
    """Remove expired tokens at each delegation.token.expiry.check.interval.ms, as long as the
    process runs."""
    while broker.tokens.enabled:
        await asyncio.sleep(broker.tokens.check_interval_ms / 1000)
        with suppress(KafkaError):  # the store has failed, and that is in the log
            await remove_expired(broker, broker.now_ms())


def _require_secret(broker: Broker) -> None:
    if not broker.tokens.enabled:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)


def _of_hmac(broker: Broker, hmac: bytes) -> DelegationToken:
    _require_secret(broker)
    token = broker.tokens.of_hmac(hmac)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _require_in_force(token: DelegationToken, now_ms: int) -> None:
    if token.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _require_managed(token: DelegationToken, principal: str) -> None:
    if not token.is_managed_by(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


async def _expire_at(broker: Broker, token: DelegationToken, expiry_ms: int) -> int:
    changed = token._replace(expiry_ms=min(expiry_ms, token.max_ms))
    await _apply(broker, {token.token_id: changed})
    return changed.expiry_ms


async def _apply(broker: Broker, changes: Mapping[str, DelegationToken | None]) -> None:
    if not changes:
        return
    await broker.in_store(lambda store: store.apply(Change(tokens=dict(changes))))
    for token_id, token in changes.items():
        if token is None:
            broker.tokens.remove(token_id)
        else:
            broker.tokens.put(token)
