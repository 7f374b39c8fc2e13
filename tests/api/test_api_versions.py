"""ApiVersions: ranges, KIP-511's fallback, features (protocol: what trips clients first)."""

import asyncio
import struct
from pathlib import Path

import pytest

from kbroker.api.error_counts import NONE, ErrorCounts
from kbroker.api.registry import APIS
from kbroker.api.version_answers import MAX_CACHED, MAX_REQUEST_BYTES, LocalAnswers
from kbroker.api.versions import TELEMETRY, VERSIONS, served
from kbroker.config.broker import BrokerConfig
from kbroker.control.images import next_image
from kbroker.control.metadata.features import FEATURES, check_update, finalized, offered
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kbroker.protocol.schema import ProtocolError
from tests.api.in_process import ask, client_request, send
from tests.control.fakes import world

REQUEST = ApiVersionsRequest("librdkafka", "2.4.0")
EVERYTHING = {"kbroker.client.telemetry.enable": "true"}


@pytest.mark.parametrize("version", range(5))
def test_every_served_api_is_listed_with_its_range(tmp_path: Path, version: int) -> None:
    with world(tmp_path, settings=EVERYTHING) as made:
        answer = asyncio.run(ask(made.broker, ApiKey.API_VERSIONS, version, REQUEST))
    assert answer.error_code == 0
    listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert listed == {key: (api.min_version, api.max_version) for key, api in APIS.items()}


def test_produce_is_advertised_from_0_though_refused_below_3() -> None:
    """librdkafka drops compression otherwise (KAFKA-18659)."""
    assert APIS[ApiKey.PRODUCE].min_version == 0
    assert not APIS[ApiKey.PRODUCE].accepts(2)
    assert APIS[ApiKey.PRODUCE].accepts(3)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_is_answered_in_v0s_form_with_its_own_range(tmp_path: Path, version: int) -> None:
    with world(tmp_path) as made:
        frame = asyncio.run(send(made.broker, ApiKey.API_VERSIONS, version, b"whatever"))
    assert frame is not None
    answer = decode_exact(ApiVersionsResponse, 0, frame, 8)  # the header is a correlation id, without tags
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]


def test_the_header_has_no_tags_in_flexible_versions_either(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        frame = asyncio.run(send(made.broker, ApiKey.API_VERSIONS, 3, REQUEST))
    assert frame is not None
    assert decode_exact(ApiVersionsResponse, 3, frame, 8).error_code == 0


@pytest.mark.parametrize(
    "software", [("", "1"), ("a", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", "ä")]
)
@pytest.mark.parametrize("version", [3, 4])
def test_malformed_software_names_are_refused(
    tmp_path: Path, software: tuple[str, str], version: int
) -> None:
    with world(tmp_path) as made:
        answer = asyncio.run(ask(made.broker, ApiKey.API_VERSIONS, version, ApiVersionsRequest(*software)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert not answer.api_keys


@pytest.mark.parametrize("software", [("a", "1"), ("apache-kafka-java", "4.3.1"), ("A.b-9", "0-0")])
def test_well_formed_software_names_pass(tmp_path: Path, software: tuple[str, str]) -> None:
    with world(tmp_path) as made:
        answer = asyncio.run(ask(made.broker, ApiKey.API_VERSIONS, 3, ApiVersionsRequest(*software)))
    assert answer.error_code == 0


def test_v3_leaves_out_features_that_may_be_off(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        third = asyncio.run(ask(made.broker, ApiKey.API_VERSIONS, 3, REQUEST))
        fourth = asyncio.run(ask(made.broker, ApiKey.API_VERSIONS, 4, REQUEST))
    assert all(feature.min_version > 0 for feature in third.supported_features)
    assert {feature.name for feature in fourth.supported_features} == set(offered(APIS))


def test_features_are_listed_only_with_the_apis_they_promise() -> None:
    promise_nothing = {"metadata.version", "eligible.leader.replicas.version", "kraft.version"}
    assert set(offered({})) == promise_nothing
    assert set(offered({ApiKey.CONSUMER_GROUP_HEARTBEAT})) == promise_nothing | {"group.version"}
    always = {"metadata.version": 30, "eligible.leader.replicas.version": 1}
    assert finalized({}, {ApiKey.END_TXN}) == always | {"transaction.version": 2}
    assert finalized({"transaction.version": 0}, {ApiKey.END_TXN}) == always


def _request(version: int, request: ApiVersionsRequest) -> tuple[ClientRequest, bytes]:
    """The message of a network process: the request and its frame without the size."""
    body = encode(request, min(max(version, 0), 4))
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, 3) + b"raw"
    tags = b"\0" if version >= 3 else b""
    return client_request(ApiKey.API_VERSIONS, version, body), head + tags + body


def test_a_network_process_answers_as_control_does(tmp_path: Path) -> None:
    with world(tmp_path, settings=EVERYTHING) as made:
        local = LocalAnswers(ErrorCounts(made.broker.metrics))
        malformed = ApiVersionsRequest("a b", "1")
        learned: list[tuple[str, str]] = []
        for levels in ({}, {"transaction.version": 1}):
            made.broker.features, made.broker.features_epoch = levels, 7 + len(levels)
            local.take(next_image(made.broker))
            for version in (*range(5), 9, -1):
                for request in (REQUEST, malformed):
                    client, frame = _request(version, request)
                    expected = asyncio.run(
                        send(made.broker, ApiKey.API_VERSIONS, version, bytes(client.body))
                    )
                    assert local.known(frame) is None or version < 3  # whose bodies are the same
                    found = local.answer(client, frame, lambda *software: learned.append(software))
                    assert found == expected
                    known = local.known(frame)
                    valid = 0 <= version <= 4 and (version < 3 or request is REQUEST)
                    assert (known is not None) is valid
                    if known is not None:
                        assert known.answer_to(frame) == expected
                        other = frame[:4] + b"\xff\xfe\xfd\xfc" + frame[8:]
                        assert local.known(other) is known
                        assert known.answer_to(other) == expected[:4] + other[4:8] + expected[8:]
        assert set(learned) == {(REQUEST.client_software_name, REQUEST.client_software_version)}


def test_a_network_process_tells_software_apart_and_remembers_a_bounded_number(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        local = LocalAnswers(ErrorCounts(made.broker.metrics))
        names = [(f"client{number}", f"1.{number}") for number in range(MAX_CACHED + 3)]
        learned: list[tuple[str, str]] = []
        frames = []
        for name, version in names:
            client, frame = _request(3, ApiVersionsRequest(name, version))
            frames.append(frame)
            local.answer(client, frame, lambda *software: learned.append(software))
        assert learned == names
        known = [found for frame in frames if (found := local.known(frame)) is not None]
        assert [(found.software_name, found.software_version) for found in known] == names[:MAX_CACHED]
        assert {found.client_id for found in known} == {"raw"}


def test_a_network_process_keeps_no_long_request(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        local = LocalAnswers(ErrorCounts(made.broker.metrics))
        client, frame = _request(3, ApiVersionsRequest("a" * MAX_REQUEST_BYTES, "1"))
        local.answer(client, frame, lambda *_: None)
        assert local.known(frame) is None


def test_a_network_process_counts_each_answer_once(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        local = LocalAnswers(ErrorCounts(made.broker.metrics))
        counted = NONE[ApiKey.API_VERSIONS]
        before = int(made.broker.metrics.words[counted])
        client, frame = _request(3, REQUEST)
        local.answer(client, frame, lambda *_: None)
        assert local.known(frame) is not None
        assert made.broker.metrics.words[counted] == before + 2


def test_a_network_process_closes_on_a_body_that_ends_too_early(tmp_path: Path) -> None:
    with world(tmp_path) as made, pytest.raises(ProtocolError):
        LocalAnswers(ErrorCounts(made.broker.metrics)).answer(
            client_request(ApiKey.API_VERSIONS, 3, b"\x05abc"), b"", lambda *_: None
        )


@pytest.mark.parametrize(
    ("settings", "offered_to_clients"),
    [
        ({}, False),
        ({"kbroker.client.telemetry.enable": "true"}, True),
        ({"kbroker.client.telemetry.enable": "true", "kbroker.http.listen": ""}, False),
    ],
)
def test_telemetry_is_offered_where_metrics_are_served(
    settings: dict[str, str], offered_to_clients: bool
) -> None:
    config, _ = BrokerConfig.load({"log.dirs": "/nowhere", **settings}, {})
    assert (served(config).keys() >= TELEMETRY) is offered_to_clients
    assert served(config).keys() | TELEMETRY == VERSIONS.keys()


def test_a_level_is_stored_and_shown(tmp_path: Path) -> None:
    name = "metadata.version"
    with world(tmp_path) as made:
        update = UpdateFeaturesRequest(1000, [FeatureUpdateKey(name, 30, False, 1)])
        answer = asyncio.run(ask(made.broker, ApiKey.UPDATE_FEATURES, 1, update))
        assert answer.error_code == 0
        before = made.broker.features_epoch
        made.broker.close()
        made.start()
        assert made.broker.features == {name: 30}
        assert made.broker.features_epoch == before > 0


@pytest.mark.parametrize("version", [1, 2])
def test_of_several_updates_of_a_feature_the_last_one_counts(tmp_path: Path, version: int) -> None:
    name = "transaction.version"
    with world(tmp_path) as made:
        updates = [FeatureUpdateKey(name, level, False, 2) for level in (9, 1)]
        update = UpdateFeaturesRequest(1000, updates)
        answer = asyncio.run(ask(made.broker, ApiKey.UPDATE_FEATURES, version, update))
        assert answer.error_code == 0
        assert made.broker.features == {name: 1}
        found = [(each.feature, each.error_message) for each in answer.results]
        assert found == ([(name, "NONE")] * 2 if version < 2 else [])


@pytest.mark.parametrize(("version", "kind", "code"), [(0, 1, 95), (1, 2, 0)])
def test_the_first_version_cannot_lower_a_level(tmp_path: Path, version: int, kind: int, code: int) -> None:
    """Apache Kafka's controller ignores allow_downgrade."""
    name = "transaction.version"
    with world(tmp_path) as made:
        update = UpdateFeaturesRequest(1000, [FeatureUpdateKey(name, 1, True, kind)])
        answer = asyncio.run(ask(made.broker, ApiKey.UPDATE_FEATURES, version, update))
        assert answer.error_code == code
        assert made.broker.features == ({} if code else {name: 1})


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("bogus", 1, 1), ("bogus", 0, 2), ("kraft.version", 1, 2),
        ("metadata.version", 31, 1), ("metadata.version", 6, 1), ("metadata.version", 29, 1),
        ("metadata.version", 30, 0), ("transaction.version", 3, 1), ("transaction.version", 1, 1),
    ],
)  # fmt: skip
def test_levels_out_of_range_or_downwards_are_refused(name: str, level: int, kind: int) -> None:
    served = {feature.needs for feature in FEATURES.values() if feature.needs is not None}
    with pytest.raises(KafkaError) as refused:
        check_update(name, level, kind, finalized({}, served), served, 1)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("kind", [2, 3])
def test_the_kraft_version_is_never_lowered(kind: int) -> None:
    with pytest.raises(KafkaError) as refused:
        check_update("kraft.version", 0, kind, {"kraft.version": 1}, (), 1)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message.endswith("Can't downgrade the version of this feature.")
    check_update("kraft.version", 1, kind, {"kraft.version": 1}, (), 1)


def test_a_safe_downgrade_is_allowed() -> None:
    check_update("transaction.version", 1, 2, {"transaction.version": 2}, {ApiKey.END_TXN}, 1)


@pytest.mark.parametrize(
    ("kind", "why"), [(2, "Refusing to perform the requested downgrade"), (3, "Unsafe metadata downgrade")]
)
def test_the_metadata_version_is_never_lowered(kind: int, why: str) -> None:
    with pytest.raises(KafkaError, match=f"Unsupported metadata.version downgrade from 30 to 21. {why}"):
        check_update("metadata.version", 21, kind, {"metadata.version": 30}, (), 1)
