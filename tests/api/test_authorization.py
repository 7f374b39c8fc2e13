"""Guards: every API has one, ACLs are stored and enforced, and control's answers hide what a client
may not see."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api.authorization.table import GUARDS, UNGUARDED
from kbroker.api.authorization.transactions import guard_init_producer_id
from kbroker.api.registry import APIS
from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.api.in_process import ask
from tests.control.fakes import World, world

ANYTHING = (1, None, 1, None, None, 1, 1)


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        one.broker.authorizer = Authorizer(frozenset(("User:ANONYMOUS",)))
        asyncio.run(create_topics(one.broker, [NewTopic("seen"), NewTopic("hidden")]))
        yield one


def creation(name: str = "seen", operation: int = acls.DESCRIBE, **more: Any) -> AclCreation:
    given = {"principal": "User:x", "host": "*", "permission_type": acls.ALLOW, **more}
    return AclCreation(acls.TOPIC, name, acls.LITERAL, operation=operation, **given)


def request(made: World, api: ApiKey, version: int, message: Any) -> Any:
    return asyncio.run(ask(made.broker, api, version, message))


def test_every_api_has_a_guard_or_a_reason_to_have_none() -> None:
    assert set(APIS) == set(GUARDS) | UNGUARDED
    assert not set(GUARDS) & UNGUARDED


def test_acls_are_created_once_stored_described_and_deleted(made: World) -> None:
    answer = request(made, ApiKey.CREATE_ACLS, 3, CreateAclsRequest([creation(), creation(), creation("")]))
    assert [one.error_code for one in answer.results] == [0, 0, ErrorCode.INVALID_REQUEST]
    expected = Acl(acls.TOPIC, "seen", acls.LITERAL, "User:x", "*", acls.DESCRIBE, acls.ALLOW)
    assert made.broker.stores.first.load().acls == [expected]
    found = request(made, ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(*ANYTHING))
    assert [(one.resource_name, len(one.acls)) for one in found.resources] == [("seen", 1)]
    gone = request(made, ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([DeleteAclsFilter(*ANYTHING)]))
    assert [one.principal for one in gone.filter_results[0].matching_acls] == ["User:x"]
    assert made.broker.stores.first.load().acls == []
    assert made.broker.authorizer is not None
    assert not made.broker.authorizer.acls


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"resource_pattern_type": acls.MATCH}, "Invalid patternType MATCH"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": acls.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
    ],
)
def test_an_acl_that_says_nothing_is_refused_in_kafkas_words(
    made: World, wrong: dict[str, Any], text: str
) -> None:
    one = creation()
    for name, value in wrong.items():
        setattr(one, name, value)
    answer = request(made, ApiKey.CREATE_ACLS, 3, CreateAclsRequest([one]))
    assert (answer.results[0].error_code, answer.results[0].error_message) == (
        ErrorCode.INVALID_REQUEST,
        text,
    )


def test_metadata_says_nothing_of_topics_that_are_hidden(made: World) -> None:
    request(made, ApiKey.CREATE_ACLS, 3, CreateAclsRequest([creation(principal="User:ANONYMOUS")]))
    everything = request(made, ApiKey.METADATA, 12, MetadataRequest(None))
    assert made.broker.authorizer is not None
    made.broker.authorizer.super_users = frozenset()
    seen = request(made, ApiKey.METADATA, 12, MetadataRequest(None))
    assert {topic.name for topic in everything.topics} == {"seen", "hidden"}
    assert {topic.name for topic in seen.topics} == {"seen"}
    named = [MetadataRequestTopic(name=name) for name in ("hidden", "absent")]
    reported = request(made, ApiKey.METADATA, 12, MetadataRequest(named, False))
    assert {(one.name, one.error_code, one.topic_id) for one in reported.topics} == {
        (name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, bytes(16)) for name in ("hidden", "absent")
    }
    by_id = [MetadataRequestTopic(made.broker.catalogue.topics["hidden"].topic_id, None)]
    reported = request(made, ApiKey.METADATA, 12, MetadataRequest(by_id, False))
    assert [(one.name, one.error_code) for one in reported.topics] == [
        (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ]


def test_names_beside_the_id_of_a_hidden_topic_are_neither_described_nor_created(made: World) -> None:
    """Kafka reads only the ids of such a request."""
    assert made.broker.authorizer is not None
    made.broker.authorizer.super_users = frozenset()
    topics = [MetadataRequestTopic(made.broker.catalogue.topics["hidden"].topic_id, None)]
    topics += [MetadataRequestTopic(name=name) for name in ("seen", "absent")]
    answer = request(made, ApiKey.METADATA, 12, MetadataRequest(topics, True))
    assert [(one.name, one.topic_id, one.error_code) for one in answer.topics] == [
        (None, topics[0].topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ]
    assert "absent" not in made.broker.catalogue.topics


def test_a_refused_empty_name_refuses_no_other(made: World) -> None:
    request(made, ApiKey.CREATE_ACLS, 3, CreateAclsRequest([creation(principal="User:ANONYMOUS")]))
    assert made.broker.authorizer is not None
    made.broker.authorizer.super_users = frozenset()
    named = [MetadataRequestTopic(name=name) for name in ("", "seen")]
    answer = request(made, ApiKey.METADATA, 12, MetadataRequest(named, False))
    assert {(one.name, one.error_code) for one in answer.topics} == {
        ("", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("seen", 0),
    }


@pytest.mark.parametrize("two_phases", [False, True])
@pytest.mark.parametrize(
    "granted", [(), (acls.WRITE,), (acls.TWO_PHASE_COMMIT,), (acls.WRITE, acls.TWO_PHASE_COMMIT)]
)
def test_two_phase_commit_takes_a_permission_of_its_own(granted: tuple[int, ...], two_phases: bool) -> None:
    """No version that is served has the field yet, so no recorded answer of Apache Kafka has it."""
    entries = [
        Acl(acls.TRANSACTIONAL_ID, "mine", acls.LITERAL, "User:ANONYMOUS", "*", operation, acls.ALLOW)
        for operation in granted
    ]
    authorizer = Authorizer(frozenset())
    authorizer.add(entries)
    ctx: Any = SimpleNamespace(
        broker=SimpleNamespace(authorizer=authorizer),
        client=SimpleNamespace(principal="User:ANONYMOUS", client_host="127.0.0.1"),
    )
    asked = InitProducerIdRequest("mine", enable2_pc=two_phases)
    needed = {acls.WRITE} | ({acls.TWO_PHASE_COMMIT} if two_phases else set())
    if needed <= set(granted):
        assert guard_init_producer_id(ctx, asked, lambda *_: "served") == "served"
    else:
        with pytest.raises(KafkaError) as refused:
            guard_init_producer_id(ctx, asked, lambda *_: "served")
        assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_missing_topic_is_created_only_for_a_client_that_may_create_it(made: World) -> None:
    """It may describe both, and create one of them."""
    rules = [
        creation("absent", principal="User:ANONYMOUS"),
        creation("allowed", principal="User:ANONYMOUS"),
        creation("allowed", acls.CREATE, principal="User:ANONYMOUS"),
    ]
    request(made, ApiKey.CREATE_ACLS, 3, CreateAclsRequest(rules))
    assert made.broker.authorizer is not None
    made.broker.authorizer.super_users = frozenset()
    named = [MetadataRequestTopic(name=name) for name in ("absent", "allowed")]
    answer = request(made, ApiKey.METADATA, 12, MetadataRequest(named, True))
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes["absent"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes["allowed"] != ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "absent" not in made.broker.catalogue.topics
