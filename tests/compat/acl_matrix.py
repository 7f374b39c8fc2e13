"""The ACL matrix: who may do what, as grants for users, and the questions that each of them asks
two brokers.

A grant is an operation on a kind of resource, given in one way (by name, by prefix, denied, to
another host, ...). Each grant has a user of its own, who asks every question: so each API meets
each operation on each kind of resource.
"""

import base64
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer, receive

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORD = "secret"
NAME = "acl-mine"
PREFIX = "acl-"
OPERATIONS = {
    acls.TOPIC: (
        acls.READ,
        acls.WRITE,
        acls.CREATE,
        acls.DELETE,
        acls.ALTER,
        acls.DESCRIBE,
        acls.DESCRIBE_CONFIGS,
        acls.ALTER_CONFIGS,
    ),
    acls.GROUP: (acls.READ, acls.DELETE, acls.DESCRIBE, acls.DESCRIBE_CONFIGS, acls.ALTER_CONFIGS),
    acls.CLUSTER: (
        acls.CREATE,
        acls.ALTER,
        acls.DESCRIBE,
        acls.CLUSTER_ACTION,
        acls.DESCRIBE_CONFIGS,
        acls.ALTER_CONFIGS,
        acls.IDEMPOTENT_WRITE,
    ),
    acls.TRANSACTIONAL_ID: (acls.WRITE, acls.DESCRIBE, acls.TWO_PHASE_COMMIT),
    acls.DELEGATION_TOKEN: (acls.DESCRIBE,),
    acls.USER: (acls.CREATE_TOKENS, acls.DESCRIBE_TOKENS),
}
NAMES = {acls.CLUSTER: acls.CLUSTER_NAME, acls.USER: f"User:{NAME}"}
PREFIXES = {acls.USER: f"User:{PREFIX}"}
TOKEN_PREFIX_CHARS = 8


@dataclass(frozen=True)
class Grant:
    """A user and what it may do."""

    user: str
    entries: tuple[Acl, ...] = ()


def grants() -> Iterator[Grant]:
    """One user for each operation, kind of resource and way; those who may nothing, and
    everything."""
    yield Grant("none")
    yield Grant("super")
    for kind, operations in OPERATIONS.items():
        for operation in operations:
            yield from _ways(kind, operation)
    for kind in OPERATIONS:
        user = f"all-{kind}"
        yield Grant(user, (_acl(user, kind, _all_of(kind), acls.ALL),))


def of_token(entry: Acl, token_id: str) -> Acl:
    """An ACL as a broker gets it: a token is named by its id, which each broker makes up."""
    if entry.resource_type != acls.DELEGATION_TOKEN or entry.resource_name == acls.WILDCARD:
        return entry
    literal = entry.pattern_type == acls.LITERAL
    return entry._replace(resource_name=token_id if literal else token_id[:TOKEN_PREFIX_CHARS])


def _ways(kind: int, operation: int) -> Iterator[Grant]:
    name = NAMES.get(kind, NAME)
    label = f"{acls.RESOURCES[kind]}-{acls.OPERATIONS[operation]}".lower()
    user = f"literal-{label}"
    yield Grant(user, (_acl(user, kind, name, operation),))
    user = f"elsewhere-{label}"
    yield Grant(user, (_acl(user, kind, name, operation, host="10.9.8.7"),))
    user = f"denied-{label}"
    entries = [_acl(user, other, _all_of(other), acls.ALL) for other in OPERATIONS]
    yield Grant(user, (*entries, _acl(user, kind, name, operation, permission=acls.DENY)))
    if kind == acls.CLUSTER:
        return
    user = f"prefixed-{label}"
    here = "127.0.0.1"
    yield Grant(user, (_acl(user, kind, PREFIXES.get(kind, PREFIX), operation, acls.PREFIXED, here),))
    user = f"wildcard-{label}"
    yield Grant(user, (_acl(user, kind, "*", operation),))


def _all_of(kind: int) -> str:
    return acls.CLUSTER_NAME if kind == acls.CLUSTER else "*"


def _acl(
    user: str,
    kind: int,
    name: str,
    operation: int,
    pattern: int = acls.LITERAL,
    host: str = "*",
    permission: int = acls.ALLOW,
) -> Acl:
    return Acl(kind, name, pattern, f"User:{user}", host, operation, permission)


def settings(plain_port: int, sasl_port: int) -> Mapping[str, str]:
    """Of a broker with an authorizer; what Kafka needs besides is `kafka_settings`."""
    users = " ".join(f'user_{grant.user}="{PASSWORD}"' for grant in grants())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:super",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "sasl.enabled.mechanisms": "PLAIN",
        "delegation.token.secret.key": "s3cret",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {users};",
    }


def kafka_settings(plain_port: int, sasl_port: int, controller: int) -> Mapping[str, str]:
    """As `settings`, with a controller."""
    given = dict(settings(plain_port, sasl_port))
    given["advertised.listeners"] = given["listeners"]
    given["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
    given["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
    given["listener.security.protocol.map"] = (
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    return given


def creations(entries: tuple[Acl, ...]) -> CreateAclsRequest:
    """The request that adds ACLs."""
    return CreateAclsRequest(
        [
            AclCreation(
                one.resource_type,
                one.resource_name,
                one.pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission,
            )
            for one in entries
        ]
    )


class UserPeer(SocketPeer):
    """A broker, asked by a user over one connection, which is opened again when the broker has
    closed it."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port, "raw")
        self.user = user
        self._link: socket.socket | None = None

    def send(self, data: bytes) -> bytes | None:
        """One answer frame without its size, None when the connection was closed."""
        link = self._link or self._login()
        link.sendall(data)
        size = receive(link, 4)
        frame = None if size is None else receive(link, struct.unpack(">i", size)[0])
        self._link = link
        if frame is None:
            self.close()
        return frame

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _login(self) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        token = f"\0{self.user}\0{PASSWORD}".encode()
        steps: tuple[tuple[ApiKey, int, Struct], ...] = (
            (ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")),
            (ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token)),
        )
        for api, version, request in steps:
            link.sendall(encode_request(api, version, 1, "raw", request))
            size = receive(link, 4)
            assert size is not None
            frame = receive(link, struct.unpack(">i", size)[0])
            assert frame is not None
            _, start = parse_response(frame, api, version)
            answer: Any = decode_exact(response_class(api), version, frame, start)
            assert answer.error_code == 0, answer
        return link


def member_id() -> str:
    """A member id as clients of modern groups make one up."""
    return base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
