"""Requests and answers of Confluent's documentation, in its words."""

import json

import pytest

from tests.http.registry.desk import Desk, record

OPTIONAL = {"name": "note", "type": ["null", "string"], "default": None}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_versions_of_a_subject_are_registered_and_found(desk: Desk) -> None:
    assert desk.register("orders-value", record("id")) == 1
    assert desk.register("orders-value", record("id", OPTIONAL)) == 2
    assert desk.register("orders-value", record("id")) == 1
    assert desk.register("other-value", record("id")) == 1
    assert desk("GET", "/subjects") == (200, ["orders-value", "other-value"])
    assert desk("GET", "/subjects/orders-value/versions") == (200, [1, 2])
    text = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
    found = {"subject": "orders-value", "version": 1, "id": 1, "schema": text}
    assert desk("GET", "/subjects/orders-value/versions/1") == (200, found)
    assert desk("GET", "/schemas/ids/1") == (200, {"schema": text})
    assert desk("GET", "/schemas/ids/1/schema") == (200, json.loads(text))
    assert desk("GET", "/schemas/ids/1/subjects") == (200, ["orders-value", "other-value"])
    assert desk("GET", "/schemas/ids/1/versions")[1][0] == {"subject": "orders-value", "version": 1}
    assert desk("POST", "/subjects/orders-value", {"schema": json.dumps(record("id"))}) == (200, found)
    assert desk("GET", "/subjects/orders-value/versions/latest")[1]["version"] == 2


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "text"),
    [
        ("GET", "/subjects/none/versions", 404, 40401, "Subject 'none' not found."),
        ("GET", "/subjects/one/versions/9", 404, 40402, "Version 9 not found."),
        ("GET", "/schemas/ids/77", 404, 40403, "Schema 77 not found"),
        ("DELETE", "/subjects/none", 404, 40401, "Subject 'none' not found."),
        (
            "DELETE",
            "/subjects/one?permanent=true",
            404,
            40405,
            "Subject 'one' was not deleted first before being permanently deleted",
        ),
        (
            "GET",
            "/config/one",
            404,
            40408,
            "Subject 'one' does not have subject-level compatibility configured",
        ),
        ("GET", "/mode/one", 404, 40409, "Subject 'one' does not have subject-level mode configured"),
        (
            "GET",
            "/subjects/one/versions/0",
            422,
            42202,
            (
                "The specified version '0' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
                'string "latest"'
            ),
        ),
    ],
)
def test_unknown_subjects_and_versions_have_confluents_codes(
    desk: Desk, method: str, path: str, status: int, code: int, text: str
) -> None:
    desk.register("one", '"string"')
    assert desk(method, path) == (status, {"error_code": code, "message": text})


def test_an_invalid_schema_is_refused(desk: Desk) -> None:
    for body in ({"schema": "{"}, {"schema": ""}, {}, {"schema": '"string"', "references": [1]}):
        status, answer = desk("POST", "/subjects/one/versions", body)
        assert (status, answer["error_code"]) == (422, 42201)
    assert desk("POST", "/subjects/one/versions", {"schema": "x", "schemaType": "XML"})[0] == 422


@pytest.mark.parametrize(
    ("level", "forward_only", "backward_only"),
    [("BACKWARD", 409, 200), ("FORWARD", 200, 409), ("FULL", 409, 409), ("NONE", 200, 200)],
)
def test_a_level_decides_what_may_follow(
    desk: Desk, level: str, forward_only: int, backward_only: int
) -> None:
    """A new field without a default can only be read by old readers; a removed one only by new
    readers."""
    assert desk("PUT", "/config", {"compatibility": level.lower()}) == (200, {"compatibility": level})
    assert desk("GET", "/config") == (200, {"compatibilityLevel": level})
    path = "/subjects/one/versions"
    desk.register("one", record("id", "old"))
    for schema, expected in ((record("id", "old", "new"), forward_only), (record("id"), backward_only)):
        body = {"schema": json.dumps(schema)}
        checked = desk("POST", "/compatibility/subjects/one/versions/latest?verbose=true", body)[1]
        assert checked["is_compatible"] is (expected == 200)
        assert bool(checked["messages"]) is (expected != 200)
    status, answer = desk("POST", path, {"schema": json.dumps(record("id", "old", "new"))})
    assert status == forward_only
    if status == 409:
        assert answer["error_code"] == 409
        assert answer["message"].startswith(
            'Schema being registered is incompatible with an earlier schema for subject "one", details: ['
        )


def test_a_transitive_level_looks_at_all_versions(desk: Desk) -> None:
    """Field `x` goes away and comes back with another type: only the first version minds."""
    desk.register("one", record("id", {"name": "x", "type": "string", "default": ""}))
    desk.register("one", record("id"))
    body = {"schema": json.dumps(record("id", {"name": "x", "type": "int", "default": 0}))}
    path = "/compatibility/subjects/one/versions"
    assert desk("POST", path, body) == (200, {"is_compatible": True})
    desk("PUT", "/config/one", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert desk("POST", path, body) == (200, {"is_compatible": False})
    assert desk("DELETE", "/config/one") == (200, {"compatibilityLevel": "BACKWARD_TRANSITIVE"})
    assert desk("GET", "/config/one?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})


def test_versions_are_deleted_softly_then_for_good(desk: Desk) -> None:
    desk.register("one", record("id"))
    desk.register("one", record("id", OPTIONAL))
    assert desk("DELETE", "/subjects/one/versions/1") == (200, 1)
    assert desk("GET", "/subjects/one/versions") == (200, [2])
    assert desk("GET", "/subjects/one/versions?deleted=true") == (200, [1, 2])
    assert desk("DELETE", "/subjects/one/versions/1")[1]["error_code"] == 40406
    assert desk("DELETE", "/subjects/one/versions/2?permanent=true")[1]["error_code"] == 40407
    assert desk("DELETE", "/subjects/one") == (200, [2])
    assert desk("DELETE", "/subjects/one")[1]["error_code"] == 40404
    assert desk("GET", "/subjects?deletedOnly=true") == (200, ["one"])
    assert desk("GET", "/schemas/ids/1")[0] == 200  # records of old are still read
    assert desk.register("one", record("id")) == 1  # the same schema has its id again, as a new version
    assert desk("GET", "/subjects/one/versions") == (200, [3])
    assert desk("DELETE", "/subjects/one") == (200, [3])
    assert desk("DELETE", "/subjects/one?permanent=true") == (200, [1, 2, 3])
    assert desk("GET", "/subjects?deleted=true") == (200, [])


def test_a_referenced_schema_is_resolved_and_cannot_be_deleted(desk: Desk) -> None:
    desk.register("item", record("sku", name="Item"))
    order = record({"name": "item", "type": "Item"})
    assert desk("POST", "/subjects/order/versions", {"schema": json.dumps(order)})[1]["error_code"] == 42201
    references = [{"name": "Item", "subject": "item", "version": 1}]
    number = desk.register("order", order, references=references)
    assert desk("GET", "/subjects/item/versions/1/referencedby") == (200, [number])
    assert desk("DELETE", "/subjects/item/versions/1")[1]["error_code"] == 42206
    assert desk("GET", f"/schemas/ids/{number}")[1]["references"] == references
    missing = [{"name": "Item", "subject": "item", "version": 2}]
    body = {"schema": json.dumps(order), "references": missing}
    assert desk("POST", "/subjects/order/versions", body)[1]["error_code"] == 42201


def test_modes_forbid_writes_and_let_ids_be_imported(desk: Desk) -> None:
    assert desk("PUT", "/mode", {"mode": "readonly"}) == (200, {"mode": "READONLY"})
    body = {"schema": '"string"'}
    assert desk("POST", "/subjects/one/versions", body)[1]["error_code"] == 42205
    assert desk("PUT", "/mode", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert desk("POST", "/subjects/one/versions", body)[1]["error_code"] == 42205
    assert desk.register("one", '"string"', id=40, version=3) == 40
    other = {"schema": '"int"', "id": 40}
    assert desk("POST", "/subjects/two/versions", other)[1]["error_code"] == 42205
    assert desk("PUT", "/mode", {"mode": "READWRITE"})[0] == 200
    assert desk("PUT", "/mode", {"mode": "IMPORT"})[1]["error_code"] == 42205
    assert desk("PUT", "/mode", {"mode": "IMPORT?"})[1]["error_code"] == 42204
    assert desk.register("two", '"int"') == 41
    assert desk("GET", "/subjects/one/versions") == (200, [3])


def test_only_an_import_leaves_versions_out(desk: Desk) -> None:
    desk.register("one", record("id"))
    body = {"schema": json.dumps(record("id", OPTIONAL))}
    path = "/subjects/one/versions"
    for version in (1, 3, 2**31 - 1):
        assert desk("POST", path, {**body, "version": version})[1]["error_code"] == 42201
    assert desk("POST", path, {**body, "version": 2}) == (200, {"id": 2})
    assert desk("GET", path) == (200, [1, 2])


@pytest.mark.parametrize("removed", ["one", "two"])
def test_a_schema_with_two_ids_gets_no_third_when_one_is_removed(desk: Desk, removed: str) -> None:
    desk("PUT", "/mode", {"mode": "IMPORT"})
    assert desk.register("one", '"string"', id=5) == 5
    assert desk.register("two", '"string"', id=9) == 9
    desk("PUT", "/mode", {"mode": "READWRITE"})
    desk("DELETE", f"/subjects/{removed}")
    assert desk("DELETE", f"/subjects/{removed}?permanent=true") == (200, [1])
    left = 9 if removed == "one" else 5
    assert desk.register("three", '"string"') == left
    assert desk.again().register("four", '"string"') == left


def test_the_id_of_a_removed_schema_stays_used_after_compaction(desk: Desk) -> None:
    desk.register("kept", '"string"')
    desk.register("gone", '"int"')
    desk.register(":.blue:gone", '"int"')
    for path in ("/subjects/gone/versions/1", "/subjects/:.blue:gone"):
        desk("DELETE", path)
        desk("DELETE", f"{path}?permanent=true")
    compacted = dict(desk.topic.rows)
    other = Desk([(key, value) for key, value in compacted.items() if value is not None])
    assert other("GET", "/subjects?deleted=true") == (200, ["kept"])
    assert other.register("next", '"long"') == desk.register("next", '"long"') == 3
    assert other.register(":.blue:next", '"long"') == desk.register(":.blue:next", '"long"') == 2


def test_normalization_finds_a_protobuf_schema_whatever_its_layout(desk: Desk) -> None:
    """The text of a registered version stays; new ones are stored in a normal form."""
    text = 'syntax = "proto3"; message A { string b = 1; }'
    laid_out = text.replace("{", "{ // a comment\n")
    assert desk.register("one", text, schemaType="PROTOBUF") == 1
    body = {"schema": laid_out, "schemaType": "PROTOBUF"}
    assert desk("POST", "/subjects/one", body)[1]["error_code"] == 40403
    assert desk("POST", "/subjects/one?normalize=true", body)[1]["schema"] == text
    assert desk("POST", "/subjects/one/versions?normalize=true", body) == (200, {"id": 1})
    assert desk("POST", "/subjects/two/versions?normalize=true", body) == (200, {"id": 2})
    normal = 'syntax = "proto3";\nmessage A {\n  string b = 1;\n}\n'
    assert desk("GET", "/schemas/ids/2")[1]["schema"] == normal
    other = {"schema": text, "schemaType": "PROTOBUF"}
    assert desk("POST", "/subjects/three/versions?normalize=true", other) == (200, {"id": 2})


def test_contexts_have_ids_of_their_own(desk: Desk) -> None:
    assert desk.register("one", '"string"') == 1
    assert desk.register(":.blue:one", '"int"') == 1
    assert desk("GET", "/contexts") == (200, [".", ".blue"])
    assert desk("GET", "/contexts/.blue/subjects") == (200, [":.blue:one"])
    assert desk("GET", "/contexts/.blue/schemas/ids/1") == (200, {"schema": '"int"'})
    assert desk("GET", "/schemas/ids/1") == (200, {"schema": '"string"'})
    assert desk("GET", "/schemas/ids/1?subject=:.blue:one") == (200, {"schema": '"int"'})
    assert desk("PUT", "/contexts/.blue/config", {"compatibility": "NONE"})[0] == 200
    assert desk.register(":.blue:one", '"string"') == 2
    assert desk("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})


def test_a_registry_that_reads_the_same_records_answers_the_same(desk: Desk) -> None:
    desk.register("one", record("id"))
    desk.register("one", record("id", OPTIONAL))
    desk.register("gone", '"int"')
    desk("DELETE", "/subjects/gone")
    desk("PUT", "/config/one", {"compatibility": "FULL", "normalize": True})
    desk("PUT", "/mode/one", {"mode": "READONLY"})
    other = desk.again()
    for path in ("/subjects?deleted=true", "/subjects", "/schemas", "/config/one", "/mode/one", "/contexts"):
        assert other("GET", path) == desk("GET", path)
    assert other.register("new", '"long"') == 4


def test_the_latest_version_with_given_metadata_is_found(desk: Desk) -> None:
    """Serializers write with it, if `use.latest.with.metadata` names properties."""
    for properties in ({"app": "1", "team": "a b"}, {"app": "1"}, {"app": ""}):
        desk.register("one", record("id"), metadata={"properties": properties})
    desk.register("one", record("id"), metadata={"tags": {}})
    desk.register("one", record("id"))
    path = "/subjects/one/metadata"
    for query, version in (
        ("key=app&value=1", 2),
        ("key=app&value=1&key=team&value=a+b&deleted=true", 1),
        ("key=team&key=app&value=a%20b&value=1", 1),
        ("key=app&value=", 3),
        ("", 3),
    ):
        status, found = desk("GET", f"{path}?{query}")
        assert (status, found["version"]) == (200, version)
    assert found == desk("GET", "/subjects/one/versions/3")[1]
    desk("DELETE", "/subjects/one/versions/2")
    assert desk("GET", f"{path}?key=app&value=1")[1]["version"] == 1
    assert desk("GET", f"{path}?key=app&value=1&deleted=true")[1]["version"] == 2
    assert desk("GET", f"{path}?key=app&value=2")[1]["error_code"] == 40403
    assert desk("GET", "/subjects/none/metadata?key=app&value=1")[1]["error_code"] == 40401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("PUT", "/subjects", 405),
        ("GET", "/schemas/ids/x", 404),
        ("POST", "/config", 405),
    ],
)
def test_a_path_that_is_not_there_is_refused(desk: Desk, method: str, path: str, status: int) -> None:
    assert desk(method, path)[0] == status


@pytest.mark.parametrize("number", ["%C2%B2", "--5", "9" * 5000, "-" * 5000])
def test_a_parameter_that_is_no_number_is_refused(desk: Desk, number: str) -> None:
    assert desk("GET", f"/schemas?limit={number}")[0] == 404
    assert desk("GET", f"/subjects/one/versions/{number}") == desk("GET", "/subjects/one/versions/x") or (
        desk("GET", f"/subjects/one/versions/{number}")[0] == 422
    )


@pytest.mark.parametrize("step", ["²", "9" * 5000, "1", "-1"])
def test_a_reference_to_no_item_of_a_list_is_refused(desk: Desk, step: str) -> None:
    schema = json.dumps({"anyOf": [{"type": "string"}], "items": {"$ref": f"#/anyOf/{step}"}})
    requested = {"schema": schema, "schemaType": "JSON"}
    assert desk("POST", "/subjects/one/versions", requested)[0] == 422


def test_a_body_that_is_no_object_is_refused(desk: Desk) -> None:
    for body in (b"{", b"[]", b"[" * 100_000, b"\xff"):
        assert int(desk.registry.answer("POST", "/subjects/one/versions", "", body)[0]) in (400, 422)


INFINITE = ["Infinity", "-Infinity", "NaN", "1e999", "-1e999"]


@pytest.mark.parametrize("number", INFINITE)
def test_a_schema_with_an_infinite_number_is_refused(desk: Desk, number: str) -> None:
    """By registering, looking up and comparing; the topic never holds it."""
    avro = json.dumps(record({"name": "a", "type": "double", "default": "HERE"}))
    extra = json.dumps({**record("a"), "odd": ["HERE"]})
    other = json.dumps({"type": "number", "maximum": 1, "odd": "HERE"})
    desk.register("one", record("id"))
    before = list(desk.topic.rows)
    for kind, text in (("AVRO", avro), ("AVRO", extra), ("JSON", other)):
        requested = {"schema": text.replace('"HERE"', number), "schemaType": kind}
        for path in (
            "/subjects/one/versions",
            "/subjects/one",
            "/compatibility/subjects/one/versions/latest",
        ):
            status, answer = desk("POST", path, requested)
            assert (status, answer["error_code"]) == (422, 42201)
            assert number in answer["message"] or "number" in answer["message"]
    assert desk.topic.rows == before


@pytest.mark.parametrize("number", INFINITE)
def test_a_body_with_an_infinite_number_is_refused(desk: Desk, number: str) -> None:
    desk.register("one", record("id"))
    before = list(desk.topic.rows)
    for method, path, body in (
        ("POST", "/subjects/two/versions", '{SCHEMA, "metadata": {"properties": {"a": HERE}}}'),
        ("POST", "/subjects/two/versions", '{SCHEMA, "ruleSet": [HERE]}'),
        ("POST", "/subjects/two/versions", '{SCHEMA, "version": HERE}'),
        ("PUT", "/config", '{"compatibility": "NONE", "defaultMetadata": {"a": HERE}}'),
        ("PUT", "/mode", '{"mode": "READWRITE", "x": HERE}'),
    ):
        sent = body.replace("SCHEMA", '"schema": "\\"int\\""')
        status, answer = desk.registry.answer(method, path, "", sent.replace("HERE", number).encode())
        assert (int(status), json.loads(answer)["error_code"]) == (400, 400)
    assert desk.topic.rows == before
