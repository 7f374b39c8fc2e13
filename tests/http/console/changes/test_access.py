"""Quotas, users and ACLs are changed by the API: the broker has the change, and decides who may
make it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kbroker.http.console.changes.access import delete_user, put_user
from kbroker.http.console.refusal import Refusal, not_served
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from tests.compat.clients.client_quotas import peer_of
from tests.compat.quota_cases import described
from tests.conftest import BrokerFactory, _run
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "kbroker.http.listen": "0.0.0.0:0",
    "kbroker.console.readonly": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}
READ_ORDERS = {"resource": "topic", "name": "orders", "principal": "User:anna", "operation": "read"}
SHOWN = READ_ORDERS | {"pattern": "literal", "host": "*", "permission": "allow"}
OLD, NEW = "secret", "änother <b>"
EVERY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A broker with the users root, who may do everything, and anna, who may do nothing."""
    node = KBroker(tmp_path_factory.mktemp("access"), SETTINGS)
    running = _run(node)
    next(running)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        users = [UserScramCredentialUpsertion(name, info, OLD.encode()) for name in ("root", "anna")]
        for future in admin.alter_user_scram_credentials(users).values():
            future.result(120)
    yield node
    next(running, None)


def logged_in(node: KBroker, user: str = "root", password: str = OLD) -> Service:
    console = Service(node)
    status, answer = console.change("/api/login", user=user, password=password)
    assert status == 200, answer
    return console


def quotas_of(node: KBroker) -> dict[Any, dict[str, float]]:
    """Quotas by entity."""
    answer: Any = peer_of(node).ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, described())
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


def resources_with_acls(node: KBroker) -> set[str]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})  # one that is gone answers nothing
    found = admin.describe_acls(EVERY_ACL).result(120)
    return {acl.name for acl in found}


def test_quotas_are_set_changed_and_removed(node: KBroker) -> None:
    console = logged_in(node)

    def alter(**body: Any) -> int:
        return console.change("/api/quotas", **body)[0]

    etl = {"user": "anna", "client-id": None}
    assert alter(entity=etl, values={"producer_byte_rate": 5000, "request_percentage": 12.5}) == 200
    assert quotas_of(node) == {
        (("client-id", None), ("user", "anna")): {"producer_byte_rate": 5000, "request_percentage": 12.5}
    }
    assert alter(entity=etl, values={"request_percentage": None, "consumer_byte_rate": 7}) == 200
    shown = console.get("/api/quotas")["quotas"]
    assert [row["values"] for row in shown] == [{"producer_byte_rate": 5000, "consumer_byte_rate": 7}]
    only_checked = {"entity": {"ip": "10.0.0.9"}, "values": {"connection_creation_rate": 5}}
    assert alter(**only_checked, validate_only=True) == 200
    assert alter(entity=etl, values={"producer_byte_rate": None, "consumer_byte_rate": None}) == 200
    assert quotas_of(node) == {}


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({"user": "a"}, {"producer_byte_rate": 0}),
        ({"user": "a"}, {"producer_byte_rate": "5"}),
        ({"user": "a"}, {"producer_byte_rate": True}),
        ({"user": "a"}, {"producer_byte_rate": 1.5}),
        ({"user": "a"}, {"connection_creation_rate": 5}),
        ({"user": "a"}, {}),
        ({"group": "a"}, {"producer_byte_rate": 5}),
        ({"user": "a", "ip": "10.0.0.9"}, {"producer_byte_rate": 5}),
        ({"user": ""}, {"producer_byte_rate": 5}),
        ({}, {"producer_byte_rate": 5}),
    ],
)
def test_a_quota_that_is_no_quota_is_refused(
    node: KBroker, entity: dict[str, str], values: dict[str, Any]
) -> None:
    status, answer = logged_in(node).change("/api/quotas", entity=entity, values=values)
    assert status == 400, answer
    assert quotas_of(node) == {}


def test_acls_are_created_and_deleted_one_by_one(node: KBroker) -> None:
    console = logged_in(node)
    assert console.change("/api/acls", **READ_ORDERS) == (200, SHOWN)
    prefix = READ_ORDERS | {"name": "order", "pattern": "prefixed", "permission": "deny", "host": "10.0.0.7"}
    assert console.change("/api/acls", **prefix) == (200, prefix)
    assert resources_with_acls(node) == {"orders", "order"}
    listed = console.get("/api/acls")["acls"]
    assert sorted(listed, key=str) == sorted([SHOWN, prefix], key=str)
    assert console.change("/api/acls/delete", **listed[0])[0] == 200
    assert console.change("/api/acls/delete", **listed[0])[0] == 404
    assert len(resources_with_acls(node)) == 1
    assert console.change("/api/acls/delete", **listed[1])[0] == 200
    assert resources_with_acls(node) == set()


@pytest.mark.parametrize(
    "other",
    [{"operation": "any"}, {"principal": "anna"}, {"resource": "any"},
     {"pattern": "match"}, {"name": ""}],
)  # fmt: skip
def test_an_acl_that_is_no_acl_is_refused(node: KBroker, other: dict[str, str]) -> None:
    status, answer = logged_in(node).change("/api/acls", **(READ_ORDERS | other))
    assert status == 400, answer
    assert resources_with_acls(node) == set()


def test_a_user_is_created_and_deleted(node: KBroker) -> None:
    console = logged_in(node)
    created = console.change("/api/users", name="bert", password=OLD)
    assert created == (200, {"name": "bert", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]})
    assert logged_in(node, "bert").get("/api/session")["user"] == "bert"
    only = console.change("/api/users", name="cleo", password=OLD, mechanism="SCRAM-SHA-512", iterations=5000)
    assert only == (200, {"name": "cleo", "mechanisms": ["SCRAM-SHA-512"]})
    listed = {row["name"]: row["credentials"] for row in console.get("/api/users")["users"]}
    assert listed["cleo"] == [{"mechanism": "SCRAM-SHA-512", "iterations": 5000}]
    assert console.change("/api/users/bert/delete", confirm="anna")[0] == 400
    for name in ("bert", "cleo"):
        assert console.change(f"/api/users/{name}/delete", confirm=name)[0] == 200
        assert console.change(f"/api/users/{name}/delete", confirm=name)[0] == 404
    assert Service(node).change("/api/login", user="bert", password=OLD)[0] == 401
    assert OLD not in node.logs()


def test_a_user_with_two_credentials_changes_both_of_its_own(node: KBroker) -> None:
    """The request for the second would no longer be accepted if the first were that of the
    login."""
    admin = logged_in(node)
    assert admin.change("/api/users", name="dora", password=OLD)[0] == 200
    allowed = READ_ORDERS | {"resource": "cluster", "name": "kafka-cluster", "principal": "User:dora"}
    for operation in ("alter", "describe"):
        assert admin.change("/api/acls", **(allowed | {"operation": operation}))[0] == 200
    own = logged_in(node, "dora")
    assert own.change("/api/users", name="dora", password=NEW)[0] == 200
    assert logged_in(node, "dora", NEW).change("/api/users/dora/delete", confirm="dora")[0] == 200
    assert "dora" not in {row["name"] for row in admin.get("/api/users")["users"]}
    for row in admin.get("/api/acls")["acls"]:
        assert admin.change("/api/acls/delete", **row)[0] == 200


class Refusing:
    """A caller whose second change the broker refuses, or is not reached for."""

    mechanism = None

    def __init__(self, reached: bool) -> None:
        self.reached = reached
        self.changes = 0

    def ask(self, api: ApiKey, _request: object) -> Any:
        infos = [SimpleNamespace(mechanism=number) for number in (1, 2)]
        answer = SimpleNamespace(error_code=0, error_message=None, credential_infos=infos)
        if api == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            self.changes += 1
            if self.changes > 1 and not self.reached:
                raise not_served("the broker stops")
            if self.changes > 1:
                answer.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED.value
        return SimpleNamespace(error_code=0, error_message=None, results=[answer])


class Change(dict[str, Any]):
    """A request for a change of a user."""

    def __init__(self, caller: Refusing) -> None:
        super().__init__(name="ann", user="ann", confirm="ann", password=NEW, mechanism=None, iterations=4096)
        self.caller = caller


@pytest.mark.parametrize(("reached", "status"), [(True, 403), (False, 503)])
def test_a_refused_change_does_not_hide_the_one_before_it(reached: bool, status: int) -> None:
    for change, verb in ((put_user, "set"), (delete_user, "deleted")):
        request: Any = Change(Refusing(reached))
        with pytest.raises(Refusal) as refused:
            change(request)
        assert type(refused.value) is Refusal  # NotServed: nothing was changed
        assert refused.value.status == status
        assert refused.value.text.startswith(f"SCRAM-SHA-256 of user ann is {verb}, SCRAM-SHA-512 is not: ")


def test_users_change_what_their_acls_allow(node: KBroker) -> None:
    console = logged_in(node, "anna")
    for path, body in (
        ("/api/quotas", {"entity": {"user": "anna"}, "values": {"producer_byte_rate": None}}),
        ("/api/acls", READ_ORDERS),
        ("/api/acls/delete", READ_ORDERS),
        ("/api/users", {"name": "anna", "password": "taken"}),
        ("/api/users/anna/delete", {"confirm": "anna"}),
    ):
        status, answer = console.change(path, **body)
        assert (status, answer["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED"), path
        assert console.request("POST", path, body)[0] == 403, path  # no token
    assert resources_with_acls(node) == set()
    assert logged_in(node, "anna").get("/api/session")["user"] == "anna"


def test_nothing_is_changed_where_the_console_only_reads(broker_factory: BrokerFactory) -> None:
    node = broker_factory()
    console = Service(node)
    entity = {"entity": {"user": "anna"}, "values": {"producer_byte_rate": 5}}
    for path, body in (("/api/quotas", entity), ("/api/users", {"name": "anna", "password": OLD})):
        status, answer = console.change(path, **body)
        assert (status, answer["error"]) == (403, "readonly")
    assert quotas_of(node) == {}
    assert console.get("/api/users")["total"] == 0


def test_a_broker_without_an_authorizer_takes_no_acls(broker_factory: BrokerFactory) -> None:
    console = Service(broker_factory({"kbroker.console.readonly": "false"}))
    status, answer = console.change("/api/acls", **READ_ORDERS)
    assert (status, answer["error"]) == (400, "SECURITY_DISABLED")
