"""SCRAM credentials of delegation tokens, made from their HMACs when a client first logs in by each
(KIP-48)."""

import asyncio
import base64
import hashlib
from collections.abc import Callable
from typing import Final

from kbroker.config.principals import name_of
from kbroker.control.changes.scram_change import MIN_ITERATIONS, credential
from kbroker.control.decoys import HASHES, Decoys
from kbroker.control.metadata.delegation_tokens import DelegationToken, DelegationTokens
from kbroker.ipc.login_messages import TokenCredential
from kbroker.ipc.messages import ScramCredential

MAX_KEPT: Final = 4096


class TokenCredentials:
    """Runs in: control. Owner: Logins. A token's credential stays the same while it is kept."""

    def __init__(self, tokens: DelegationTokens, decoys: Decoys) -> None:
        self._tokens = tokens
        self._decoys = decoys
        self._kept: dict[tuple[str, int], ScramCredential] = {}

    async def find(self, token_id: str, mechanism: int, now_ms: Callable[[], int]) -> TokenCredential:
        """The credential that checks a login by a token; a decoy for a token that is not valid
        now."""
        decoy = self._decoys.token(token_id, mechanism)
        if mechanism not in HASHES or self._in_force(token_id, now_ms()) is None:
            return TokenCredential(decoy, "", 0)
        found = self._kept.get((token_id, mechanism))
        if found is None:
            password = base64.b64encode(self._tokens.hmac_of(token_id))
            found = await asyncio.to_thread(made_credential, HASHES[mechanism], password, decoy.salt)
            found = self._keep((token_id, mechanism), found)
        token = self._in_force(token_id, now_ms())  # it may have ended meanwhile
        if token is None:
            return TokenCredential(decoy, "", 0)
        return TokenCredential(found, name_of(token.owner), token.expiry_ms)

    def _in_force(self, token_id: str, now_ms: int) -> DelegationToken | None:
        token = self._tokens.get(token_id)
        return None if token is None or token.has_expired(now_ms) else token

    def _keep(self, key: tuple[str, int], made: ScramCredential) -> ScramCredential:
        """The credential, or that of another login which was made meanwhile."""
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return self._kept.setdefault(key, made)


def made_credential(hash_name: str, password: bytes, salt: bytes) -> ScramCredential:
    """The credential of a password. It takes milliseconds, in which other threads run."""
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, MIN_ITERATIONS)
    return credential(hash_name, salt, salted, MIN_ITERATIONS)
