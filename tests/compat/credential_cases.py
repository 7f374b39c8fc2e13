"""Credential, login and token requests on a PLAINTEXT listener, to be answered as Apache Kafka
4.3.1 answers them."""

from functools import partial

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_user_scram_credentials as ausc
from kbroker.protocol.messages import create_delegation_token as cdt
from kbroker.protocol.messages import describe_delegation_token as ddt
from kbroker.protocol.messages import describe_user_scram_credentials as dusc
from kbroker.protocol.messages import expire_delegation_token as edt
from kbroker.protocol.messages import renew_delegation_token as rdt
from kbroker.protocol.messages import sasl_authenticate as sa
from kbroker.protocol.messages import sasl_handshake as sh
from tests.compat.raw import Case, case

later = partial(case, settles=True, same_text=True)
SALTED = bytes(range(32))
ODD_ITERATIONS = (-(2**31), -1, 0, 2**31 - 1)


def upsert(name: str, mechanism: int = 1, iterations: int = 4096) -> ausc.ScramCredentialUpsertion:
    return ausc.ScramCredentialUpsertion(name, mechanism, iterations, b"salt", SALTED)


def alter(
    *changes: ausc.ScramCredentialDeletion | ausc.ScramCredentialUpsertion,
) -> ausc.AlterUserScramCredentialsRequest:
    deletions = [one for one in changes if isinstance(one, ausc.ScramCredentialDeletion)]
    upsertions = [one for one in changes if isinstance(one, ausc.ScramCredentialUpsertion)]
    return ausc.AlterUserScramCredentialsRequest(deletions, upsertions)


delete = ausc.ScramCredentialDeletion


def describe(*users: str) -> dusc.DescribeUserScramCredentialsRequest:
    return dusc.DescribeUserScramCredentialsRequest([dusc.UserName(user) for user in users])


SCRAM: list[Case] = [
    case(f"credentials {number}", K.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), request, same_text=True)
    for number, request in enumerate((
        alter(), alter(upsert("alice"), upsert("bob", 2, 16384), upsert("carol", 2)), alter(upsert("alice", 2, 8192)),
        alter(upsert(""), upsert("few", 1, 4095), upsert("many", 2, 16385), upsert("zero", 0), upsert("three", 3),
              upsert("twice"), upsert("twice", 2), upsert("thrice"), upsert("thrice"), upsert("thrice", 2)),
        alter(delete("nobody", 1), delete("alice", 3), delete("", 1), delete("bob", 1)),
        alter(delete("carol", 2), upsert("carol", 1)), alter(delete("carol", 2)),
        *(alter(upsert("odd", mechanism, iterations)) for mechanism in (1, 2) for iterations in ODD_ITERATIONS),
    ))
] + [
    later(f"credentials of {users}", K.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), describe(*users))
    for users in ((), ("alice",), ("bob", "alice", "carol"), ("alice", "alice"), ("nobody", ""))
] + [
    later("credentials of all", K.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0),
          dusc.DescribeUserScramCredentialsRequest(None)),
]  # fmt: skip

UNCALLED_FOR: list[Case] = [
    case("handshake", K.SASL_HANDSHAKE, (0, 1), sh.SaslHandshakeRequest("PLAIN")),
    case("authenticate", K.SASL_AUTHENTICATE, (0, 2), sa.SaslAuthenticateRequest(b"\0a\0b"), same_text=True),
]

TOKENS: list[Case] = [
    case("create token", K.CREATE_DELEGATION_TOKEN, (1, 3), cdt.CreateDelegationTokenRequest("", "", [], 1000)),
    case("create token for another", K.CREATE_DELEGATION_TOKEN, (3, 3),
         cdt.CreateDelegationTokenRequest("User", "alice", [cdt.CreatableRenewers("User", "bob")], -1)),
    case("renew token", K.RENEW_DELEGATION_TOKEN, (1, 2), rdt.RenewDelegationTokenRequest(b"x", 1000)),
    case("expire token", K.EXPIRE_DELEGATION_TOKEN, (1, 2), edt.ExpireDelegationTokenRequest(b"x", 1000)),
    case("describe tokens", K.DESCRIBE_DELEGATION_TOKEN, (1, 3), ddt.DescribeDelegationTokenRequest(None)),
    case("describe tokens of some", K.DESCRIBE_DELEGATION_TOKEN, (1, 3), ddt.DescribeDelegationTokenRequest(
        [ddt.DescribeDelegationTokenOwner("User", "alice")])),
]  # fmt: skip

CASES = SCRAM + UNCALLED_FOR + TOKENS
