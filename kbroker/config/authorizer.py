"""Authorization: the rules of Kafka's StandardAuthorizer, over any set of ACLs.

Super users may do everything. An ACL applies when it names the resource (by its name, by a prefix
of it, or by ``*``) and the client (or everybody, ``User:*``) from its host (or any). If one of them
denies, the request is denied; otherwise one must allow it. Without any ACL, access to a resource is
denied to all clients, or allowed to all with allow.everyone.if.no.acl.found.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from kbroker.config import acls, client_network
from kbroker.config.acls import Acl
from kbroker.config.broker import BrokerConfig
from kbroker.config.principals import EVERYBODY
from kbroker.config.setting import ConfigError
from kbroker.protocol.slices import paced

K = TypeVar("K", str, int)
CLASS_SETTING: Final = "authorizer.class.name"
SOME_RESOURCE: Final = "hardcode"
"""The name of any resource, as in Kafka's Authorizer.authorizeByResourceType."""
ByPrincipal = dict[str, dict[Acl, str]]
"""The host of each ACL, as `plain_host` gives it."""
Rules = tuple[tuple[str, int, int], ...]
"""(host, operation, permission) of each ACL."""
NO_ACLS: Final[dict[Acl, str]] = {}
OF_OTHERS: Final[Rules] = (("", 0, 0),)


def super_users_of(text: str) -> frozenset[str]:
    """The principals of super.users. Raises ConfigError."""
    found = set()
    for each in filter(None, (part.strip() for part in text.split(";"))):
        kind, colon, name = each.partition(":")
        if not colon or not kind:
            raise ConfigError(f"super.users: expected a principal as Type:name, not {each}")
        found.add(f"{kind}:{name}")
    return frozenset(found)


class Authorizer:
    """A pure table: control and each network process have one, with the same ACLs. A question looks
    only at the ACLs of its principal."""

    def __init__(
        self,
        super_users: frozenset[str] = frozenset(),
        allow_if_none: bool = False,
        entries: Iterable[Acl] = (),
    ) -> None:
        self.super_users = super_users
        self.allow_if_none = allow_if_none
        self.acls: dict[Acl, None] = {}
        self._principals: ByPrincipal = {}
        self._literal: dict[tuple[int, str], ByPrincipal] = {}
        self._prefixed: dict[tuple[int, str], ByPrincipal] = {}
        self._lengths: dict[int, dict[int, int]] = {}  # resource type -> length of a prefix -> prefixes
        self._hosts: dict[str, int] = {}
        self._denials: dict[str, int] = {}  # principal -> ACLs that deny
        self.add(entries)

    @classmethod
    def of(cls, config: BrokerConfig, entries: Iterable[Acl] = ()) -> "Authorizer | None":
        """The one that the settings ask for. Raises ConfigError."""
        if not config.get_optional_str(CLASS_SETTING):
            return None
        everyone = config.get_bool("allow.everyone.if.no.acl.found")
        return cls(super_users_of(config.get_str("super.users")), everyone, entries)

    # --- changes --------------------------------------------------------------------------------------

    def add(self, entries: Iterable[Acl]) -> None:
        """Take ACLs in; those that are there already stay as they are."""
        for acl in entries:
            if acl in self.acls:
                continue
            self.acls[acl] = None
            host = plain_host(acl.host)
            self._principals.setdefault(acl.principal, {})[acl] = host
            key = acl.resource_type, acl.resource_name
            literal = acl.pattern_type == acls.LITERAL
            table = self._literal if literal else self._prefixed
            if not literal and key not in table:
                lengths = self._lengths.setdefault(acl.resource_type, {})
                lengths[len(acl.resource_name)] = lengths.get(len(acl.resource_name), 0) + 1
            table.setdefault(key, {}).setdefault(acl.principal, {})[acl] = host
            self._hosts[host] = self._hosts.get(host, 0) + 1
            if acl.permission == acls.DENY:
                self._denials[acl.principal] = self._denials.get(acl.principal, 0) + 1

    def remove(self, entries: Iterable[Acl]) -> None:
        """Drop ACLs; those that are not there are passed over."""
        for acl in entries:
            if acl not in self.acls:
                continue
            del self.acls[acl]
            host = self._principals[acl.principal][acl]
            _drop(self._principals, acl)
            key = acl.resource_type, acl.resource_name
            literal = acl.pattern_type == acls.LITERAL
            table = self._literal if literal else self._prefixed
            _drop(table[key], acl)
            if not table[key]:
                del table[key]
                if not literal:
                    _count_down(self._lengths[acl.resource_type], len(acl.resource_name))
            _count_down(self._hosts, host)
            if acl.permission == acls.DENY:
                _count_down(self._denials, acl.principal)

    # --- questions ------------------------------------------------------------------------------------

    def host_of(self, host: str) -> str | None:
        """The host, if any ACL names it; clients from all other hosts have the same permissions. An
        ACL may name any text, so only None matches no host of an ACL."""
        return host if host in self._hosts else None

    def allows(self, principal: str, host: str | None, operation: int, kind: int, name: str) -> bool:
        """Whether a client may do an operation to a resource."""
        if principal in self.super_users:
            return True
        named = allowed = False
        for group in self._naming(kind, name):
            named = True
            for acl, its_host in _of(principal, group):
                if its_host not in (host, acls.WILDCARD):
                    continue
                if acl.permission == acls.ALLOW:
                    implying = acls.IMPLYING.get(operation)
                    allowed |= (
                        acl.operation in (acls.ALL, operation)
                        if implying is None
                        else acl.operation == acls.ALL or acl.operation in implying
                    )
                elif acl.operation in (acls.ALL, operation):
                    return False
        return allowed if named else self.allow_if_none

    def _naming(self, kind: int, name: str) -> Iterator[ByPrincipal]:
        """The ACLs that name a resource, by pattern."""
        if found := self._literal.get((kind, name)):
            yield found
        if name != acls.WILDCARD and (found := self._literal.get((kind, acls.WILDCARD))):
            yield found
        for length in self._lengths.get(kind, ()):
            if length <= len(name) and (found := self._prefixed.get((kind, name[:length]))):
                yield found

    def grouped(self, principal: str, kind: int, names: Iterable[str]) -> list[list[str]]:
        """The names of resources, divided into lists: for all names of a list the ACLs say the same
        about a principal, so it may do the same to each. Thousands of names take milliseconds."""
        literal, prefixed = self._literal, self._prefixed
        lengths = list(self._lengths.get(kind, ()))
        found: dict[Rules, list[str]] = {}
        for name in paced(names):
            rules: Rules = ()
            if group := literal.get((kind, name)):
                rules = _rules(principal, group)
            for length in lengths:
                if length <= len(name) and (group := prefixed.get((kind, name[:length]))):
                    rules += _rules(principal, group)
            if (some := found.get(rules)) is None:
                some = found[rules] = []
            some.append(name)
        return list(found.values())

    def allows_some(self, principal: str, host: str | None, operation: int, kind: int) -> bool:
        """Whether a client may do an operation to any resource of a type at all."""
        if self.allows(principal, host, operation, kind, SOME_RESOURCE):
            return True
        groups = [self._principals.get(each, NO_ACLS) for each in {principal, EVERYBODY}]
        own = [(group, list(group)) for group in groups]

        def patterns(permission: int) -> Iterator[tuple[int, str]]:
            for group, entries in own:
                for acl in paced(entries):
                    if (
                        acl.resource_type == kind
                        and acl.permission == permission
                        and acl.operation in (operation, acls.ALL)
                        and group.get(acl, "") in (host, acls.WILDCARD)  # it may be gone meanwhile
                    ):
                        yield acl.pattern_type, acl.resource_name

        everything = acls.LITERAL, acls.WILDCARD
        some_denied = principal in self._denials or EVERYBODY in self._denials
        denied = set(patterns(acls.DENY)) if some_denied else set()
        if everything in denied:
            return False
        lengths = {len(name) for pattern_type, name in denied if pattern_type == acls.PREFIXED}
        for pattern in patterns(acls.ALLOW):
            prefixes = ((acls.PREFIXED, pattern[1][:length]) for length in lengths)
            literally = pattern[0] == acls.LITERAL and pattern in denied
            if pattern == everything or not (literally or any(prefix in denied for prefix in prefixes)):
                return True
        return False


def plain_host(host: str) -> str:
    """The host of an ACL as a connection has it. Apache Kafka compares with Java's form of an
    address of IPv6, 2001:db8:0:0:0:0:0:1, so its ACLs have that."""
    return str(client_network.literal(host) or host) if ":" in host else host


def _of(principal: str, group: ByPrincipal) -> Iterator[tuple[Acl, str]]:
    """The ACLs for a principal, and those for everybody, with their hosts."""
    yield from group.get(principal, NO_ACLS).items()
    if principal != EVERYBODY:
        yield from group.get(EVERYBODY, NO_ACLS).items()


def _rules(principal: str, group: ByPrincipal) -> Rules:
    """The rules of a pattern for a principal. Those for others do not matter, but that there are
    any does."""
    if principal not in group and EVERYBODY not in group:
        return OF_OTHERS
    return tuple([(host, acl.operation, acl.permission) for acl, host in _of(principal, group)])


def _count_down(counts: dict[K, int], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _drop(group: ByPrincipal, acl: Acl) -> None:
    del group[acl.principal][acl]
    if not group[acl.principal]:
        del group[acl.principal]
