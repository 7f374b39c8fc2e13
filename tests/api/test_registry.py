"""The registry: every API file registers once; dispatch answers, refuses or closes."""

import asyncio
import inspect
import logging
import re
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import pytest

import kbroker.api
from kbroker.api import docs
from kbroker.api.registry import APIS, MODULES
from kbroker.api.row import BY_TOPIC, REPEATED, Owner
from kbroker.api.versions import VERSIONS
from kbroker.control.coordinator.machine import Deferred
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.net.rate_limited_log import BURST
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.index import APIS as KNOWN
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import Struct
from tests.api.in_process import ask, send
from tests.control.fakes import world

ROOM = Path(kbroker.api.__file__).parent


def test_every_api_file_is_in_the_registry() -> None:
    files = {path.stem for path in ROOM.glob("*.py") if "API = Api(" in path.read_text()}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == files


def test_network_processes_know_the_versions_of_every_api() -> None:
    assert {key: (api.min_version, api.max_version) for key, api in APIS.items()} == VERSIONS


def test_no_key_is_registered_twice() -> None:
    assert len({module.API.key for module in MODULES}) == len(MODULES)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.API.name)
def test_an_api_file_has_key_and_versions_in_its_first_line(module) -> None:  # type: ignore[no-untyped-def]
    api = module.API
    assert f"(key {int(api.key)})" in module.__doc__.splitlines()[0]
    shown = (
        f"v{api.min_version}-{api.max_version}"
        if api.min_version != api.max_version
        else f"v{api.min_version}"
    )
    assert shown in module.__doc__.splitlines()[0]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.API.name)
def test_every_answered_version_can_be_encoded(module) -> None:  # type: ignore[no-untyped-def]
    api, known = module.API, KNOWN[module.API.key]
    first = api.min_version if api.accepted_from is None else api.accepted_from
    assert known.min_version <= first <= api.max_version <= known.max_version


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.API.name)
def test_handlers_of_control_are_there(module) -> None:  # type: ignore[no-untyped-def]
    if module.API.owner is Owner.CONTROL:
        assert callable(module.handle)
        assert callable(module.refuse)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.API.name)
def test_a_handler_gives_an_answer_or_a_deferred(module) -> None:  # type: ignore[no-untyped-def]
    """No coroutine and no other type: dispatch and guards handle only these kinds."""
    if module.API.owner is Owner.CONTROL:
        kind = get_type_hints(module.handle)["return"]
        kinds = get_args(kind) or (kind,)
        assert all(issubclass(each, Struct | CachedAnswer | NoneType | Deferred) for each in kinds)
        assert not inspect.iscoroutinefunction(module.handle)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.API.name)
def test_an_api_with_cached_answers_names_its_fast_path(module) -> None:  # type: ignore[no-untyped-def]
    caches = "import cached_answers" in Path(module.__file__).read_text()
    assert (REPEATED in module.API.fast_paths) == caches


def test_apis_that_the_kernel_takes_before_control_say_so() -> None:
    source = (ROOM.parent / "net/forward/forward_kernel.py").read_text()
    taken = {getattr(ApiKey, name) for name in re.findall(r"api == ApiKey\.([A-Z_]+)", source)}
    shown = {
        key
        for key, api in APIS.items()
        if api.owner is Owner.CONTROL
        for path in api.fast_paths
        if path.file.startswith("net/") and path not in (REPEATED, BY_TOPIC)
    }
    assert taken == shown


def test_files_of_fast_paths_exist() -> None:
    files = {path.file for api in APIS.values() for path in api.fast_paths}
    assert all((ROOM.parent / file).is_file() for file in files)


def test_the_page_of_apis_names_every_one() -> None:
    page = docs.page()
    assert all(f"| {int(api.key)} | {api.name} |" in page for api in APIS.values())


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (19, 1), (999, 0), (0, 9), (1, 12), (2, 0)])
def test_an_unserved_api_or_version_closes_the_connection(
    tmp_path: Path, key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with world(tmp_path) as made, caplog.at_level(logging.WARNING):
        assert asyncio.run(send(made.broker, key, version, b"")) is None
    assert len(caplog.records) == 1


def test_a_body_that_can_not_be_read_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with world(tmp_path) as made, caplog.at_level(logging.WARNING):
        assert asyncio.run(send(made.broker, ApiKey.METADATA, 1, b"\x00\x00\x00\x09")) is None
    assert "bad Metadata" in caplog.text


def test_a_client_that_sends_such_bodies_again_and_again_does_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with world(tmp_path) as made, caplog.at_level(logging.WARNING):
        for _ in range(3 * BURST):
            assert asyncio.run(send(made.broker, ApiKey.METADATA, 1, b"\x00\x00\x00\x09")) is None
    assert BURST <= len(caplog.records) < 2 * BURST


def test_bytes_after_the_request_are_passed_over(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        assert asyncio.run(send(made.broker, ApiKey.METADATA, 1, b"\x00\x00\x00\x00more")) is not None


def test_answers_carry_the_correlation_id(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        for version in range(14):
            assert asyncio.run(ask(made.broker, ApiKey.METADATA, version, MetadataRequest([]))) is not None


def test_a_bug_in_a_late_answer_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("a bug")

    monkeypatch.setattr("kbroker.api.registry.encode_response", broken)
    with world(tmp_path) as made, pytest.raises(RuntimeError, match="a bug"):
        asyncio.run(send(made.broker, ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([])))
