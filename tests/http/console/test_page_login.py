"""Logins in the page, in Debian's Chromium: what the ACLs of a user let it see, and the tables of
quotas, users and ACLs."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tests.compat.raw import SocketPeer
from tests.conftest import _run
from tests.http.console.browser import IN_A_BROWSER, Browser
from tests.http.console.page import Page
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "kbroker.http.listen": "0.0.0.0:0",
    "kbroker.console.readonly": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}
PASSWORD = "a password with <b>ü</b>"


def rule(
    kind: ResourceType, name: str, operation: AclOperation, prefix: bool = False, deny: bool = False
) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, "User:anna", "*", operation, permission)


def limit(node: KBroker, entity: dict[str, str | None], **values: float) -> None:
    parts = [RequestEntityData(kind, name) for kind, name in entity.items()]
    operations = [OpData(key, value, False) for key, value in values.items()]
    request = AlterClientQuotasRequest([RequestEntryData(parts, operations)], False)
    peer = SocketPeer(int(node.bootstrap.rpartition(":")[2]))
    answer: Any = peer.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    assert answer.entries[0].error_code == 0, answer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A broker with the users anna, who may read topics of a prefix, and root."""
    node = KBroker(tmp_path_factory.mktemp("page"), SETTINGS)
    running = _run(node)
    next(running)
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    users = [UserScramCredentialUpsertion(name, credential, PASSWORD.encode()) for name in ("anna", "root")]
    futures = [
        *admin.alter_user_scram_credentials(users).values(),
        *admin.create_topics([NewTopic(name, 1, 1) for name in ("shop-orders", "payroll")]).values(),
        *admin.create_acls(
            [
                rule(ResourceType.TOPIC, "shop-", AclOperation.READ, prefix=True),
                rule(ResourceType.TOPIC, "shop-secret", AclOperation.READ, deny=True),
            ]
        ).values(),
    ]
    for future in futures:
        future.result(120)
    producer = Producer(client)
    producer.produce("shop-orders", "seen by anna", key="k")
    assert producer.flush(120) == 0
    limit(node, {"user": "anna", "client-id": None}, producer_byte_rate=2e6, request_percentage=150)
    limit(node, {"ip": "10.0.0.7"}, connection_creation_rate=5)
    yield node
    next(running, None)


@pytest.fixture
def page(shared_browser: Browser, node: KBroker) -> Iterator[Page]:
    """The page before a login."""
    shared_browser.size(1280, 900)
    made = Page(shared_browser, node)
    shared_browser.call("Network.clearBrowserCookies")
    shared_browser.open(made.address)
    shared_browser.wait("document.querySelector('.login')")
    yield made
    shared_browser.open("about:blank")
    # the browser notes each answer of 401 and 403
    assert [each for each in shared_browser.problems if "status of 40" not in each] == []
    shared_browser.problems.clear()


def log_in(page: Page, user: str, password: str = PASSWORD) -> None:
    page.choose("User", user)
    page.choose("Password", password)
    page.click("Log in")


def test_a_wrong_password_is_refused_and_emptied(page: Page) -> None:
    log_in(page, "anna", "wrong")
    page.browser.wait("document.querySelector('.login .tag.bad')")
    assert page.browser.run("document.querySelector('input[type=password]').value") == ""
    assert page.browser.run("document.querySelector('.login input').value") == "anna"
    assert not page.browser.run("document.querySelector('nav, #nav').checkVisibility()")
    log_in(page, "anna")
    page.sees("Throughput")


def test_a_user_sees_what_its_acls_allow(page: Page) -> None:
    log_in(page, "anna")
    page.sees("Throughput")
    assert page.browser.run("document.getElementById('foot').innerText").startswith("anna")
    page.show("topics")
    page.sees("1 topic")
    assert "payroll" not in page.browser.text()
    page.show("topics/shop-orders")
    page.sees("seen by anna")
    for place in ("topics/payroll", "quotas", "users", "acls", "settings", "clients", "host"):
        page.show(place)
        page.browser.wait("document.querySelector('.failed')")
        assert page.browser.run("document.querySelectorAll('main table').length") == 0, place


def test_a_change_without_the_right_is_refused_in_its_dialog(page: Page) -> None:
    log_in(page, "anna")
    page.show("topics/shop-orders")
    page.click("Delete")
    page.enter("dialog input[type=text]", "shop-orders")
    page.click("Delete topic")
    page.browser.wait("document.querySelector('dialog .error').textContent")
    page.click("Cancel")
    page.show("topics")
    page.sees("shop-orders")


def test_a_login_lasts_until_the_user_logs_out(page: Page) -> None:
    log_in(page, "anna")
    page.sees("Throughput")
    page.show("topics")
    page.sees("shop-orders")
    page.click("Log out")
    page.browser.wait("document.querySelector('.login')")
    assert "shop-orders" not in page.browser.text()
    page.browser.open(f"{page.address}#/topics")
    page.browser.wait("document.querySelector('.login')")


def rows_without_buttons(page: Page) -> set[str]:
    cells = "[...e.cells].filter(c => !c.querySelector('button')).map(c => c.innerText).join(' ')"
    rows = page.browser.run(f"[...document.querySelectorAll('main tbody tr')].map(e => {cells})")
    return {" ".join(row.split()) for row in rows}


def test_a_quota_without_the_right_is_refused_in_its_dialog(page: Page) -> None:
    log_in(page, "anna")
    page.sees("Throughput")
    page.show("quotas")
    page.click("New quota")
    page.choose("Client id", "etl")
    page.choose("Produce, bytes/s", "5000")
    page.click("Set quota")
    page.browser.wait("document.querySelector('dialog .error').textContent.includes('uthoriz')")
    page.click("Cancel")


def test_quotas_have_their_entities_and_units(page: Page) -> None:
    log_in(page, "root")
    page.sees("Throughput")
    page.show("quotas")
    page.sees("2 quotas")
    shown = rows_without_buttons(page)
    assert shown == {
        "ip 10.0.0.7 new connections 5/s",
        "client-id <default> user anna request time 150% produce 2.0 MB/s",
    }


def test_users_have_their_credentials(page: Page) -> None:
    log_in(page, "root")
    page.sees("Throughput")
    page.show("users")
    page.sees("2 users")
    for name in ("anna", "root"):
        assert page.browser.run(page.cell(name, "Credentials")).strip() == "SCRAM-SHA-256, 4096 iterations"


def test_acls_have_their_patterns_and_permissions(page: Page) -> None:
    log_in(page, "root")
    page.sees("Throughput")
    page.show("acls")
    page.sees("2 ACLs")
    shown = rows_without_buttons(page)
    assert shown == {
        "User:anna allow read topic shop- (prefix) *",
        "User:anna deny read topic shop-secret *",
    }


def test_a_session_that_ends_asks_for_a_login_and_returns_to_its_place(page: Page, node: KBroker) -> None:
    log_in(page, "root")
    page.sees("Throughput")
    page.show("topics/shop-orders/partitions")
    page.sees("First offset")
    node.kill9_child("http")  # sessions are in its memory
    page.browser.wait("document.querySelector('.login')")
    assert "First offset" not in page.browser.text()
    log_in(page, "root")
    page.sees("First offset")
    assert page.browser.run("location.hash") == "#/topics/shop-orders/partitions"
    page.browser.problems.clear()  # the browser notes each connection that is refused
