"""Metadata and rules of a subject: inherited, merged with its settings, and compared within a
group."""

import json
from typing import Any

import pytest

from kbroker.http.registry.metadata import merged_metadata, merged_rules
from tests.http.registry.desk import Desk, record

PATH = "/subjects/one/versions"
PLAIN = {"schema": json.dumps(record("id"))}
RULES = {"domainRules": [{"name": "encrypt", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}]}
OWNED = {"properties": {"owner": "Jo", "app": "1"}, "sensitive": ["owner"]}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_schema_without_metadata_inherits_those_of_the_latest_version(desk: Desk) -> None:
    """A serializer registers the plain schema: the rules of the subject stay."""
    assert desk("POST", PATH, {**PLAIN, "metadata": OWNED, "ruleSet": RULES}) == (200, {"id": 1})
    full = {"id": 1, "version": 1, "metadata": OWNED, "ruleSet": RULES, "schema": desk_text(desk, 1)}
    assert desk("POST", PATH, PLAIN) == (200, full)
    other = {"schema": json.dumps(record("id", {"name": "x", "type": "int", "default": 0}))}
    full = {"id": 2, "version": 2, "metadata": OWNED, "ruleSet": RULES}
    found = desk("POST", PATH, other)[1]
    assert found == full | {"schema": desk_text(desk, 2)}
    changed = {**other, "metadata": {"properties": {"app": "2"}}}
    assert desk("POST", PATH, changed)[1]["ruleSet"] == RULES
    assert desk("GET", f"{PATH}/3")[1]["metadata"] == {"properties": {"app": "2"}}
    assert desk("POST", "/subjects/one", PLAIN)[1]["error_code"] == 40403  # a look-up takes it as it is


def desk_text(desk: Desk, version: int) -> Any:
    return desk("GET", f"{PATH}/{version}")[1]["schema"]


def test_a_plain_version_is_found_before_it_inherits(desk: Desk) -> None:
    desk.register("one", record("id"))
    desk.register("one", record("id"), metadata=OWNED)
    assert desk("POST", PATH, PLAIN) == (200, {"id": 1})


def test_settings_give_defaults_and_overrides(desk: Desk) -> None:
    desk.register("one", record("id"))
    config = {
        "defaultMetadata": {"properties": {"owner": "all", "app": "0"}},
        "overrideMetadata": {"properties": {"app": "9"}},
        "overrideRuleSet": RULES,
    }
    assert desk("PUT", "/config/one", config) == (200, config)
    answer = desk("POST", PATH, {**PLAIN, "metadata": OWNED})[1]
    assert answer["version"] == 2  # the plain version has neither
    assert answer["metadata"] == {"properties": {"owner": "Jo", "app": "9"}, "sensitive": ["owner"]}
    assert answer["ruleSet"] == RULES
    assert desk("POST", PATH, PLAIN)[1]["version"] == 2
    assert desk.again()("POST", PATH, PLAIN)[1]["version"] == 2


def test_an_import_keeps_what_it_is_given(desk: Desk) -> None:
    desk.register("one", record("id"), metadata=OWNED)
    desk("PUT", "/mode/one?force=true", {"mode": "IMPORT"})
    assert desk("POST", PATH, {**PLAIN, "id": 7, "version": 2}) == (200, {"id": 7})
    assert "metadata" not in desk("GET", f"{PATH}/2")[1]


@pytest.mark.parametrize("normalize", ["", "?normalize=true"])
def test_metadata_in_another_order_are_the_same(desk: Desk, normalize: str) -> None:
    for number, properties in ((1, {"a": "1", "b": "2"}), (1, {"b": "2", "a": "1"}), (2, {"a": "1"})):
        answer = desk("POST", PATH + normalize, {**PLAIN, "metadata": {"properties": properties}})
        assert answer == (200, {"id": number})


def test_a_schema_is_compared_within_its_group(desk: Desk) -> None:
    desk("PUT", "/config/one", {"compatibilityGroup": "app"})
    desk.register("one", record("id"), metadata={"properties": {"app": "1"}})
    broken = {"schema": json.dumps(record({"name": "id", "type": "string"}))}
    first, second = ({**broken, "metadata": {"properties": {"app": app}}} for app in "12")
    path = "/compatibility/subjects/one/versions/latest"
    for body, compatible in ((first, False), (second, True), (broken, True)):
        assert desk("POST", path, body) == (200, {"is_compatible": compatible})
    assert desk("POST", PATH, first)[0] == 409
    assert desk("POST", PATH, broken)[0] == 409  # it inherits the group of the latest version
    assert desk("POST", PATH, second) == (200, {"id": 2})
    again = {"schema": json.dumps(record("id", "x")), "metadata": {"properties": {"app": "1"}}}
    assert desk("POST", path, again)[1]["is_compatible"]  # the latest version is of another group
    path = "/compatibility/subjects/one/versions"
    assert not desk("POST", path, again)[1]["is_compatible"]


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        (None, None, None),
        ({"properties": {"a": "1"}}, None, {"properties": {"a": "1"}}),
        (None, {"tags": {}}, {"tags": {}}),
        ({"sensitive": ["b"]}, {"sensitive": ["a", "b"]}, {"sensitive": ["a", "b"]}),
        ({"tags": {"x": ["1"]}}, {"tags": {"x": ["2"]}}, {"tags": {"x": ["2"]}}),
        ({"properties": {"a": "1"}}, {"properties": {}}, {"properties": {"a": "1"}}),
        ({"sensitive": [["odd"]]}, {"sensitive": [{}]}, {"sensitive": [{}]}),
        ({"properties": {}}, "odd", "odd"),
    ],
)
def test_metadata_are_merged_by_name(old: Any, new: Any, merged: Any) -> None:
    assert merged_metadata(old, new) == merged


def test_rules_are_merged_by_name() -> None:
    old = {"domainRules": [{"name": "a", "expr": "1"}, {"name": "b"}], "migrationRules": [{"name": "c"}]}
    new = {"domainRules": [{"name": "a", "expr": "2"}], "migrationRules": []}
    assert merged_rules(old, new) == {
        "domainRules": [{"name": "b"}, {"name": "a", "expr": "2"}],
        "migrationRules": [{"name": "c"}],
    }
    assert merged_rules(new, {"domainRules": "odd"}) == {"domainRules": "odd", "migrationRules": []}
    assert merged_rules({"domainRules": ["odd"]}, {"domainRules": [7]}) == {"domainRules": [7]}
