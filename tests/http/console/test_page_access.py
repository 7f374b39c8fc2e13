"""Quotas, users and ACLs that a reader changes in the page, in Debian's Chromium."""

from collections.abc import Iterator

import pytest

from tests.conftest import _run
from tests.http.console.accessibility import findings_in_all_looks
from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

SETTINGS = {
    "kbroker.console.readonly": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PASSWORDS = "document.querySelectorAll('dialog input[type=password]')"
DIALOGS = [("quotas", "New quota"), ("users", "New user"), ("acls", "New ACL")]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    node = KBroker(tmp_path_factory.mktemp("page"), SETTINGS)
    running = _run(node)
    next(running)
    yield node
    next(running, None)


@pytest.fixture
def console(node: KBroker) -> Service:
    return Service(node)


def press(page: Page, row: str, button: str) -> None:
    """Press a button in the row that holds a text."""
    rows = f"[...document.querySelectorAll('main tr')].find(e => e.textContent.includes({row!r}))"
    find = f"[...({rows})?.querySelectorAll('button') ?? []].find(e => e.textContent === {button!r})"
    page.browser.wait(find)
    page.browser.run(f"{find}.click()")
    page.browser.wait("document.querySelector('dialog[open]')")


def type_passwords(page: Page, first: str, second: str) -> None:
    for number, text in enumerate((first, second)):
        page.browser.run(f"{PASSWORDS}[{number}].value = {text!r}")


def closed(page: Page) -> None:
    page.browser.wait("!document.querySelector('dialog')")


@pytest.mark.parametrize(("place", "button"), DIALOGS)
def test_every_dialog_is_accessible(page: Page, place: str, button: str) -> None:
    page.show(place)
    page.click(button)
    page.browser.wait("document.querySelector('dialog[open]')")
    assert findings_in_all_looks(page.browser) == []


def test_a_quota_is_set_changed_and_removed(page: Page, console: Service) -> None:
    page.show("quotas")
    page.sees("No quotas")
    page.click("New quota")
    page.choose("For", "user client-id")
    page.choose("User", "etl")
    page.choose("Produce, bytes/s", "5000")
    page.choose("Request time, %", "12.5")
    page.click("Set quota")
    page.sees("The quota is set.")
    page.browser.wait("document.querySelector('main table')")
    (row,) = console.get("/api/quotas")["quotas"]
    assert row["entity"] == [{"type": "client-id", "name": None}, {"type": "user", "name": "etl"}]
    assert row["values"] == {"producer_byte_rate": 5000, "request_percentage": 12.5}
    press(page, "etl", "Change")
    page.choose("Produce, bytes/s", "")
    page.choose("Fetch, bytes/s", "7000")
    page.click("Change quota")
    closed(page)
    (row,) = console.get("/api/quotas")["quotas"]
    assert row["values"] == {"consumer_byte_rate": 7000, "request_percentage": 12.5}
    assert findings_in_all_looks(page.browser) == []
    press(page, "etl", "Remove")
    page.click("Remove quota")
    page.sees("No quotas")
    assert console.get("/api/quotas")["total"] == 0


def test_a_quota_of_an_address_has_the_limit_of_addresses(page: Page, console: Service) -> None:
    page.show("quotas")
    page.click("New quota")
    page.choose("For", "ip")
    shown = "[...document.querySelectorAll('dialog label')].filter(e => e.checkVisibility())"
    assert page.browser.run(f"{shown}.map(e => e.firstChild.textContent)") == [
        "For",
        "Address",
        "New connections/s",
    ]
    page.click("Set quota")
    page.browser.wait(
        "document.querySelector('dialog .error').textContent === 'Enter a limit, or change one.'"
    )
    page.choose("Address", "10.0.0.7")
    page.choose("New connections/s", "5")
    page.click("Set quota")
    closed(page)
    (row,) = console.get("/api/quotas")["quotas"]
    assert (row["entity"], row["values"]) == (
        [{"type": "ip", "name": "10.0.0.7"}],
        {"connection_creation_rate": 5},
    )
    assert (
        console.change("/api/quotas", entity={"ip": "10.0.0.7"}, values=dict.fromkeys(row["values"]))[0]
        == 200
    )


def test_a_quota_of_all_others_is_not_that_of_a_user_named_default(page: Page, console: Service) -> None:
    for name, rate in (("default", 1000), (None, 2000)):
        change = {"entity": {"user": name}, "values": {"producer_byte_rate": rate}}
        assert console.change("/api/quotas", **change)[0] == 200
    page.show("quotas")
    page.browser.wait("document.querySelectorAll('main tbody tr').length === 2")
    names = page.browser.run("[...document.querySelectorAll('main td .name')].map(e => e.innerText)")
    assert sorted(names) == ["<default>", "default"]
    keys = "new Set([...document.querySelectorAll('main tbody tr')].map(e => e.dataset.key)).size"
    assert page.browser.run(keys) == 2
    for name in ("default", None):
        change = {"entity": {"user": name}, "values": {"producer_byte_rate": None}}
        assert console.change("/api/quotas", **change)[0] == 200


def test_a_limit_that_is_refused_stays_in_its_dialog(page: Page, console: Service) -> None:
    page.show("quotas")
    page.click("New quota")
    page.choose("Client id", "etl")
    page.choose("Produce, bytes/s", "1.5")
    page.click("Set quota")
    page.browser.wait("document.querySelector('dialog .error').textContent.includes('fractional')")
    page.click("Cancel")
    assert console.get("/api/quotas")["total"] == 0
    page.browser.problems.clear()  # the browser notes each answer of 400


def test_a_user_is_created_with_a_password_and_deleted(page: Page, console: Service) -> None:
    page.show("users")
    page.click("New user")
    page.choose("Name", "anna")
    type_passwords(page, "first", "second")
    page.click("Create user")
    page.browser.wait("document.querySelector('dialog .error').textContent === 'The passwords differ.'")
    type_passwords(page, "first", "first")
    page.click("Create user")
    page.sees("User anna is created.")
    page.browser.wait(page.cell("anna", "Credentials"))
    (row,) = console.get("/api/users")["users"]
    assert [each["mechanism"] for each in row["credentials"]] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    press(page, "anna", "Password")
    type_passwords(page, "third", "third")
    page.click("Set password")
    page.sees("The password of anna is set.")
    page.browser.wait("document.querySelector('main table')")
    assert findings_in_all_looks(page.browser) == []
    press(page, "anna", "Delete")
    assert page.browser.run("document.querySelector('dialog button.main').disabled")
    page.enter("dialog input[type=text]", "anna")
    page.click("Delete user")
    page.sees("No SCRAM users")
    assert console.get("/api/users")["total"] == 0


def test_an_acl_is_created_and_deleted(page: Page, console: Service) -> None:
    page.show("acls")
    page.click("New ACL")
    page.choose("Principal", "User:anna")
    page.choose("Resource", "group")
    page.choose("Operation", "describe")
    page.choose("Name", "billing-")
    page.choose("Applies to", "prefixed")
    page.click("Create ACL")
    page.sees("The ACL is created.")
    page.browser.wait("document.querySelector('main table')")
    (row,) = console.get("/api/acls")["acls"]
    assert row == {
        "resource": "group", "name": "billing-", "pattern": "prefixed", "principal": "User:anna", "host": "*",
        "operation": "describe", "permission": "allow",
    }  # fmt: skip
    assert findings_in_all_looks(page.browser) == []
    press(page, "billing-", "Delete")
    assert "User:anna from *: allow describe on group billing- (prefix)." in page.browser.text()
    page.click("Delete ACL")
    page.sees("No ACLs")
    assert console.get("/api/acls")["total"] == 0


def test_an_acl_of_the_cluster_has_its_name_and_operations(page: Page, console: Service) -> None:
    page.show("acls")
    page.click("New ACL")
    page.choose("Principal", "anna")
    page.choose("Resource", "cluster")
    page.choose("Operation", "describe configs")
    page.click("Create ACL")
    page.browser.wait("document.querySelector('dialog .error').textContent")  # a principal has a type
    page.choose("Principal", "User:anna")
    page.click("Create ACL")
    closed(page)
    (row,) = console.get("/api/acls")["acls"]
    assert (row["name"], row["operation"]) == ("kafka-cluster", "describe configs")
    assert console.change("/api/acls/delete", **row)[0] == 200
    page.browser.problems.clear()  # the browser notes each answer of 400
