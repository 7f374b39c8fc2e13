"""Delegation tokens (KIP-48): who owns each, until when, and the HMAC that proves it.

The HMAC of a token is that of its id, keyed with `delegation.token.secret.key`. It is computed,
never stored: with another secret every token loses its HMAC, and so its use.
"""

import hmac
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kbroker.config.broker import BrokerConfig

SECRET: Final = "delegation.token.secret.key"
HASH: Final = "sha512"


class DelegationToken(NamedTuple):
    """A token. owner, requester, renewers: principals as `Type:name`. Times in ms since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expiry_ms: int

    def has_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return min(self.max_ms, self.expiry_ms) < now_ms

    def is_managed_by(self, principal: str) -> bool:
        """Whether a principal may renew and expire it: the requester of another's token may not."""
        return principal == self.owner or principal in self.renewers

    def is_shown_to(self, principal: str) -> bool:
        """Whether a principal sees it without a permission for that."""
        return principal == self.requester or self.is_managed_by(principal)


class DelegationTokens:
    """Runs in: control. Owner: the Broker. Holds what the store holds, and the HMACs."""

    def __init__(self, config: BrokerConfig, stored: Iterable[DelegationToken] = ()) -> None:
        self._secret = (config.get_optional_str(SECRET) or "").encode()
        self.max_lifetime_ms = config.get_int("delegation.token.max.lifetime.ms")
        self.renewal_ms = config.get_int("delegation.token.expiry.time.ms")
        self.check_interval_ms = config.get_int("delegation.token.expiry.check.interval.ms")
        self._by_id: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        self._requested: Counter[str] = Counter()
        for token in stored:
            self.put(token)

    @property
    def enabled(self) -> bool:
        """Whether there is a secret; without it no client gets or uses a token."""
        return bool(self._secret)

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._by_id.values())

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token, which only its users know."""
        return hmac.digest(self._secret, token_id.encode(), HASH)

    def of_hmac(self, hmac_bytes: bytes) -> DelegationToken | None:
        """The token with this HMAC."""
        return self.get(self._ids.get(hmac_bytes, ""))

    def get(self, token_id: str) -> DelegationToken | None:
        """A token by its id; None without a secret, too."""
        return self._by_id.get(token_id) if self.enabled else None

    def requested_by(self, principal: str) -> int:
        """The number of existing tokens that a principal has requested."""
        return self._requested[principal]

    def put(self, token: DelegationToken) -> None:
        """Add a token, or change one."""
        self.remove(token.token_id)
        self._by_id[token.token_id] = token
        self._requested[token.requester] += 1
        if self.enabled:
            self._ids[self.hmac_of(token.token_id)] = token.token_id

    def remove(self, token_id: str) -> None:
        """Forget a token; does nothing if it is unknown."""
        token = self._by_id.pop(token_id, None)
        if token is None:
            return
        self._requested[token.requester] -= 1
        if not self._requested[token.requester]:
            del self._requested[token.requester]
        if self.enabled:
            del self._ids[self.hmac_of(token_id)]
