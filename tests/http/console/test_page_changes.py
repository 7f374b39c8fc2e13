"""Changes that a reader makes in the page, in Debian's Chromium: their dialogs, and the broker's
state after them."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from kbroker.control.metadata.topic_plan import MAX_PARTITIONS_PER_REQUEST
from tests.conftest import BrokerFactory
from tests.http.console.browser import IN_A_BROWSER, Browser
from tests.http.console.page import Page
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

CONFIRM = "dialog button.main"
ORDERS = ConfigResource(ConfigResource.Type.TOPIC, "orders")


def setting(node: KBroker, resource: ConfigResource, key: str) -> tuple[str | None, bool]:
    """The broker's value of a setting, and whether it is the default."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    entry = admin.describe_configs([resource])[resource].result(120)[key]
    return entry.value, entry.is_default


def change_button(row: str) -> str:
    return f"document.querySelector(\"[data-key='{row}'] button\")"


def test_a_setting_of_a_topic_is_changed_and_restored(page: Page, node: KBroker) -> None:
    page.show("topics/orders/settings")
    page.enter("main input[type=search]", "retention.ms")
    page.browser.run(f"{change_button('retention.ms')}.click()")
    page.choose("Value (long)", "3600001")
    page.click("Change setting")
    page.sees("Settings of orders are changed.")
    page.browser.wait(f"{page.cell('retention.ms', 'Value')} === '3600001'")
    assert setting(node, ORDERS, "retention.ms") == ("3600001", False)
    page.browser.run(f"{change_button('retention.ms')}.click()")
    page.tick("Restore the default")
    page.click("Change setting")
    page.browser.wait(f"{page.cell('retention.ms', 'Source')} === 'default'")
    assert setting(node, ORDERS, "retention.ms") == ("604800000", True)


def test_a_setting_of_the_broker_is_changed(page: Page, node: KBroker) -> None:
    page.show("settings")
    page.enter("main input[type=search]", "log.cleaner.threads")
    page.browser.run(f"{change_button('log.cleaner.threads')}.click()")
    page.choose("Value (int)", "2")
    page.click("Change setting")
    page.sees("The setting is changed.")
    page.browser.wait("!document.querySelector('dialog')")
    assert setting(node, ConfigResource(ConfigResource.Type.BROKER, "1"), "log.cleaner.threads") == (
        "2",
        False,
    )


def test_a_value_that_is_refused_stays_in_its_dialog(page: Page, node: KBroker) -> None:
    page.show("topics/orders/settings")
    page.browser.run(f"{change_button('cleanup.policy')}.click()")
    page.choose("Value (list)", "shred")
    page.click("Change setting")
    page.browser.wait("document.querySelector('dialog .error').textContent.includes('shred')")
    assert page.browser.run("document.querySelector('dialog .field input').value") == "shred"
    assert not page.browser.run(f"document.querySelector('{CONFIRM}').disabled")
    page.click("Cancel")
    assert setting(node, ORDERS, "cleanup.policy") == ("delete", True)
    page.browser.problems.clear()  # the browser notes each answer of 400


def test_a_sensitive_setting_is_not_emptied_by_a_click(page: Page) -> None:
    """Its value is not shown: its field is empty at first."""
    field = "document.querySelector('dialog .field input')"
    page.show("settings")
    page.enter("main input[type=search]", "ssl.key.password")
    page.browser.run(f"{change_button('ssl.key.password')}.click()")
    page.browser.wait(field)
    assert not page.browser.run(f"{field}.checkValidity()")
    page.enter("dialog .field input", "secret")
    assert page.browser.run(f"{field}.checkValidity()")
    page.enter("dialog .field input", "")
    page.tick("Restore the default")
    assert page.browser.run(f"{field}.form.checkValidity()")
    page.click("Cancel")


def test_a_setting_that_only_a_start_reads_has_no_button(page: Page) -> None:
    page.show("settings")
    page.browser.wait(page.cell("log.dirs", "Value"))
    assert page.browser.run(f"{change_button('log.dirs')} === null")


def test_partitions_are_added_and_never_removed(page: Page, node: KBroker) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("growing", 2, 1)])["growing"].result(120)
    page.show("topics/growing/partitions")
    page.click("Add partitions")
    assert page.browser.run("document.querySelector('dialog input').value") == "3"
    most = page.browser.run("document.querySelector('dialog input').max")
    assert most == str(2 + MAX_PARTITIONS_PER_REQUEST)
    page.choose("Total partitions", "2")
    page.browser.run(f"document.querySelector('{CONFIRM}').click()")
    assert page.browser.run("document.querySelector('dialog input:invalid') !== null")
    page.choose("Total partitions", "5")
    page.browser.run(f"document.querySelector('{CONFIRM}').click()")
    page.sees("growing has 5 partitions.")
    page.browser.wait("document.querySelectorAll('main tbody tr').length === 5")
    assert len(admin.list_topics(timeout=30).topics["growing"].partitions) == 5


def test_a_new_topic_has_at_most_the_partitions_of_one_request(page: Page) -> None:
    page.show("topics")
    page.click("New topic")
    most = page.browser.run("document.querySelector('dialog input[type=number]').max")
    assert most == str(MAX_PARTITIONS_PER_REQUEST)


def test_a_group_is_deleted_after_its_name_is_typed(page: Page, node: KBroker) -> None:
    client = {"bootstrap.servers": node.bootstrap}
    consumer = Consumer(client | {"group.id": "leaving"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    page.show("groups/leaving")
    page.click("Delete")
    assert page.browser.run(f"document.querySelector('{CONFIRM}').disabled")
    page.enter("dialog input[type=text]", "leavin")
    assert page.browser.run(f"document.querySelector('{CONFIRM}').disabled")
    page.enter("dialog input[type=text]", "leaving")
    page.click("Delete group")
    page.browser.wait("location.hash === '#/groups'")
    page.sees("Group leaving is deleted.")
    listed = AdminClient(client).list_consumer_groups().result(120).valid
    assert "leaving" not in {group.group_id for group in listed}


def test_a_group_with_members_is_not_deleted(page: Page, node: KBroker) -> None:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "busy"})
    consumer.subscribe(["orders"])
    page.show("groups")
    page.browser.wait("document.querySelector(\"[data-key='#/groups/busy']\")")
    page.show("groups/busy")
    page.click("Delete")
    page.enter("dialog input[type=text]", "busy")
    page.click("Delete group")
    page.browser.wait("document.querySelector('dialog .error').textContent")
    consumer.close()
    page.browser.problems.clear()  # the browser notes each answer of 409


def test_a_console_that_only_reads_has_no_buttons_for_changes(
    shared_browser: Browser, broker_factory: BrokerFactory
) -> None:
    node = broker_factory()
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(120)
    consumer = Consumer(client | {"group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    page = Page(shared_browser, node)
    for place, text in (
        ("topics", "orders"), ("topics/orders/partitions", "First offset"),
        ("topics/orders/settings", "retention.ms"), ("groups/billing", "No members"),
        ("settings", "log.dirs"),
    ):  # fmt: skip
        page.show(place)
        page.sees(text)
        page.sees("read-only")
        words = ("new", "add", "delete", "reset", "change")
        assert [each for each in page.buttons() if each.lower().startswith(words)] == [], place
    shared_browser.open("about:blank")
