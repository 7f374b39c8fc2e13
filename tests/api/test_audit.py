"""Lines of the audit log: every change and every refusal by control, without secrets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.api.audit import CHANGES, MAX_NAMED
from kbroker.api.registry import APIS
from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.audit.log import line_of
from kbroker.ipc.link import FrameReader
from kbroker.ipc.messages import AuditEvent, AuditEvents
from kbroker.ipc.wire import pack
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.api.in_process import ask
from tests.api.kept_lines import Kept
from tests.control.fakes import World, world

READING = frozenset(
    ("DESCRIBE", "LIST", "FIND", "METADATA", "FETCH", "API_VERSIONS", "OFFSET_F", "SASL", "SHARE_FETCH")
)
OF_CLIENTS_WORK = frozenset(
    ("PRODUCE", "GROUP", "TXN", "COMMIT", "HEARTBEAT", "INIT_PRODUCER_ID", "SHARE_ACKNOWLEDGE", "TELEMETRY")
)


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        one.services.audit = Kept()
        yield one


def lines(made: World, api: ApiKey, version: int, request: Any) -> list[dict[str, Any]]:
    kept: object = made.services.audit
    assert isinstance(kept, Kept)
    asyncio.run(ask(made.broker, api, version, request))
    found, kept.lines = kept.lines, []
    return found


def test_the_line_of_a_change_has_principal_operation_address_and_outcome(made: World) -> None:
    request = CreateTopicsRequest([CreatableTopic("new", 1, 1), CreatableTopic("b/d", 1, 1)], 30_000, False)
    (line,) = lines(made, ApiKey.CREATE_TOPICS, 5, request)
    assert line == {
        "event": "change",
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.1",
        "port": 50000,
        "listener": "PLAINTEXT",
        "client_id": "raw",
        "operation": "CreateTopics",
        "allowed": True,
        "resources": [
            {"name": "new", "error": "NONE"},
            {"name": "b/d", "error": "INVALID_TOPIC_EXCEPTION"},
        ],
        "errors": {"NONE": 1, "INVALID_TOPIC_EXCEPTION": 1},
        "request": {"validate_only": False},
    }


def test_a_change_of_many_names_some_and_counts_all(made: World) -> None:
    request = DeleteTopicsRequest(topic_names=[f"t{i}" for i in range(999)], timeout_ms=1000)
    (line,) = lines(made, ApiKey.DELETE_TOPICS, 5, request)
    assert len(line["resources"]) == MAX_NAMED
    assert line["errors"] == {"UNKNOWN_TOPIC_OR_PARTITION": 999}


def test_the_line_of_a_refusal_names_only_refused_resources(made: World) -> None:
    made.broker.authorizer = Authorizer()
    request = CreateTopicsRequest([CreatableTopic("theirs", 1, 1)], 30_000, False)
    (line,) = lines(made, ApiKey.CREATE_TOPICS, 5, request)
    assert (line["event"], line["allowed"]) == ("refusal", False)
    assert line["resources"] == [{"name": "theirs", "error": "TOPIC_AUTHORIZATION_FAILED"}]
    (line,) = lines(made, ApiKey.JOIN_GROUP, 5, JoinGroupRequest(group_id="g", session_timeout_ms=6000))
    assert (line["operation"], line["allowed"]) == ("JoinGroup", False)
    assert line["request"]["group_id"] == "g"


def test_a_change_that_was_refused_in_part_has_a_line_of_what_was_changed(made: World) -> None:
    """Before, only the refused resources were named: a client that added one hid its changes."""
    made.broker.authorizer = Authorizer(
        entries=[Acl(acls.TOPIC, "own", acls.LITERAL, "User:*", "*", acls.CREATE, acls.ALLOW)]
    )
    request = CreateTopicsRequest(
        [CreatableTopic("own", 1, 1), CreatableTopic("theirs", 1, 1)], 30_000, False
    )
    change, refusal = lines(made, ApiKey.CREATE_TOPICS, 5, request)
    assert (change["event"], change["allowed"]) == ("change", True)
    assert change["resources"] == [{"name": "own", "error": "NONE"}]
    assert (refusal["event"], refusal["allowed"]) == ("refusal", False)
    assert refusal["resources"] == [{"name": "theirs", "error": "TOPIC_AUTHORIZATION_FAILED"}]


def test_a_change_has_its_line_however_many_refusals_there_were(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kept, "admits_refusal", lambda *_: False)
    made.broker.authorizer = Authorizer(
        entries=[Acl(acls.TOPIC, "own", acls.LITERAL, "User:*", "*", acls.CREATE, acls.ALLOW)]
    )
    topics = [CreatableTopic("own", 1, 1), CreatableTopic("theirs", 1, 1)]
    (line,) = lines(made, ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics, 30_000, False))
    assert (line["event"], line["resources"]) == ("change", [{"name": "own", "error": "NONE"}])
    refused = CreateTopicsRequest(topics[1:], 30_000, False)
    assert lines(made, ApiKey.CREATE_TOPICS, 5, refused) == []


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        (ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([], 30_000, False)),
        (ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([CreatableTopic("t", 1, 1)], 30_000, True)),
        (ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["none"], timeout_ms=1000)),
        (ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(b"none", 1)),
    ],
    ids=["empty", "validate only", "unknown", "token"],
)
def test_requests_that_change_nothing_are_within_the_limits_of_refusals(
    made: World, monkeypatch: pytest.MonkeyPatch, api: ApiKey, version: int, request_: Any
) -> None:
    """Before, a client without any permission could write such lines without end."""
    (line,) = lines(made, api, version, request_)
    assert line["event"] == "change"
    monkeypatch.setattr(Kept, "admits_refusal", lambda *_: False)
    assert lines(made, api, version, request_) == []


def test_reading_that_is_allowed_leaves_no_line(made: World) -> None:
    requested = MetadataRequest([MetadataRequestTopic(name="none")], False)
    assert lines(made, ApiKey.METADATA, 5, requested) == []


def test_a_topic_that_metadata_creates_is_a_change(made: World) -> None:
    requested = MetadataRequest([MetadataRequestTopic(name="made")], True)
    kept: object = made.services.audit
    assert isinstance(kept, Kept)

    async def run() -> None:
        await ask(made.broker, ApiKey.METADATA, 5, requested)
        async with asyncio.timeout(10):
            while not kept.lines:
                await asyncio.sleep(0.001)

    asyncio.run(run())
    (line,) = kept.lines
    assert (line["operation"], line["resources"]) == ("Metadata", [{"name": "made"}])


def test_no_value_of_a_setting_and_no_key_is_in_a_line(made: World) -> None:
    config = AlterableConfig("ssl.keystore.password", 0, "s3cret")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [config])], True)
    scram = ScramCredentialUpsertion("u", 1, 4096, b"s3cret-salt", b"s3cret")
    found = lines(made, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    found += lines(
        made, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, AlterUserScramCredentialsRequest([], [scram])
    )
    assert len(found) == 2
    assert "s3cret" not in str(found)
    assert "ssl.keystore.password" in str(found)
    assert found[1]["resources"] == [{"name": "u", "error": "NONE"}]


def test_a_change_of_acls_says_which(made: World) -> None:
    made.broker.authorizer = Authorizer(frozenset(("User:ANONYMOUS",)))
    creation = AclCreation(acls.TOPIC, "t", acls.LITERAL, "User:x", "*", acls.READ, acls.ALLOW)
    (line,) = lines(made, ApiKey.CREATE_ACLS, 2, CreateAclsRequest([creation]))
    assert line["request"]["creations"][0]["principal"] == "User:x"
    assert line["errors"] == {"NONE": 1}


def test_every_api_that_changes_something_for_good_is_a_change() -> None:
    for key in APIS:
        name = ApiKey(key).name
        if key not in CHANGES:
            reads = any(name.startswith(word) for word in READING)
            assert reads or any(word in name for word in OF_CLIENTS_WORK), name


def test_an_event_of_a_network_process_is_sent_to_control_and_becomes_a_line() -> None:
    event = AuditEvent(5, "refusal", "User:a", "1.2.3.4", 9, "SASL", "Produce", False, ("t",), "", 7)
    ((_, body),) = FrameReader(lambda _: None).feed(pack(0, AuditEvents((event,))))
    assert body.events == (event,)
    assert line_of(event) == {
        "event": "refusal",
        "principal": "User:a",
        "host": "1.2.3.4",
        "port": 9,
        "listener": "SASL",
        "operation": "Produce",
        "allowed": False,
        "resources": [{"name": "t"}],
        "count": 7,
    }
