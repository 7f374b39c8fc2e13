"""What every user of the ACL matrix asks about delegation tokens. They are asked over a
`TokenKnower`; the tokens are those of `NAME` and `OTHER`, and none is made, renewed or ended."""

from typing import Protocol, cast

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import create_delegation_token as cdt
from kbroker.protocol.messages import describe_delegation_token as ddt
from kbroker.protocol.messages import expire_delegation_token as edt
from kbroker.protocol.messages import renew_delegation_token as rdt
from tests.compat.acl_matrix import NAME
from tests.compat.raw import LEVELLED, Case, Peer, case

OTHER = "other"
OF_TOKENS = LEVELLED | {"token_id", "hmac", "issue_timestamp", "expiry_timestamp", "max_timestamp"}


class TokenKnower(Protocol):
    """A peer with delegation tokens."""

    def token_hmac(self, owner: str) -> bytes:
        """The password of an owner's token."""


def _create(owner: str | None) -> cdt.CreateDelegationTokenRequest:
    """For a renewer of a wrong type: the broker looks first who may ask, and makes no token."""
    kind = None if owner is None else "User"
    return cdt.CreateDelegationTokenRequest(kind, owner, [cdt.CreatableRenewers("Group", "readers")], 60_000)


def _hmac(peer: Peer) -> bytes:
    return cast(TokenKnower, peer).token_hmac(NAME)


def _renew(peer: Peer) -> rdt.RenewDelegationTokenRequest:
    return rdt.RenewDelegationTokenRequest(_hmac(peer), 60_000)


def _expire(peer: Peer) -> edt.ExpireDelegationTokenRequest:
    return edt.ExpireDelegationTokenRequest(_hmac(peer), 60_000)


def _describe(*owners: str) -> ddt.DescribeDelegationTokenRequest:
    return ddt.DescribeDelegationTokenRequest(
        [ddt.DescribeDelegationTokenOwner("User", owner) for owner in owners]
    )


TOKEN_QUESTIONS: list[Case] = [
    case("create a token", K.CREATE_DELEGATION_TOKEN, (1, 3), _create(None)),
    case("create a token for one", K.CREATE_DELEGATION_TOKEN, (3, 3), _create(NAME)),
    case("create a token for another", K.CREATE_DELEGATION_TOKEN, (3, 3), _create(OTHER)),
    case("renew a token", K.RENEW_DELEGATION_TOKEN, (1, 2), _renew),
    case("renew no token", K.RENEW_DELEGATION_TOKEN, (2, 2), rdt.RenewDelegationTokenRequest(b"none", 60_000)),
    case("expire a token", K.EXPIRE_DELEGATION_TOKEN, (1, 2), _expire),
    case("expire no token", K.EXPIRE_DELEGATION_TOKEN, (2, 2), edt.ExpireDelegationTokenRequest(b"none", -1)),
    case("describe all tokens", K.DESCRIBE_DELEGATION_TOKEN, (1, 3), ddt.DescribeDelegationTokenRequest(None),
          levelled=OF_TOKENS),
    case("describe tokens of one", K.DESCRIBE_DELEGATION_TOKEN, (3, 3), _describe(NAME), levelled=OF_TOKENS),
    case("describe tokens of another", K.DESCRIBE_DELEGATION_TOKEN, (3, 3), _describe(OTHER), levelled=OF_TOKENS),
    case("describe tokens of nobody", K.DESCRIBE_DELEGATION_TOKEN, (3, 3), _describe(), levelled=OF_TOKENS),
]  # fmt: skip
