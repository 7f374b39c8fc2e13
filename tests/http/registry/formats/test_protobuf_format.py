"""The files that a Protobuf schema imports without a reference."""

from datetime import date
from decimal import Decimal
from importlib import import_module
from pathlib import Path, PurePosixPath

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kbroker.http.registry.formats import InvalidSchema, parse
from kbroker.http.registry.formats.decode import UnknownType, _message_indexes, decoder_of, plain
from kbroker.http.registry.formats.protobuf_format import WELL_KNOWN, compiled, well_known

FOLDER = WELL_KNOWN[1]
NAMES = sorted(file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.proto"))
GOOGLE = (
    "calendar_period color date datetime dayofweek decimal expr fraction interval latlng localized_text "
    "money month phone_number postal_address quaternion timeofday"
)
"""Names of files, without their ending."""
CONFLUENT = ("meta", "type/decimal", "type/variant", "types/decimal")
ORDER = """syntax = "proto3";
import "google/type/money.proto";
import "confluent/types/decimal.proto";
import "confluent/meta.proto";
message Order {
  option (confluent.message_meta).doc = "an order";
  google.type.Money price = 1;
  confluent.type.Decimal weight = 2 [(confluent.field_meta) = { tags: "PII" }];
}
"""


def published(name: str) -> FileDescriptorProto:
    """The descriptor of the file's package, without options for the code of other languages."""
    parts = PurePosixPath(name).with_suffix("").parts
    room = "confluent_kafka.schema_registry." if parts[0] == "confluent" else ""
    found = FileDescriptorProto()
    import_module(f"{room}{'.'.join(parts)}_pb2").DESCRIPTOR.CopyToProto(found)
    found.ClearField("options")
    return found


def test_all_files_that_serializers_never_refer_to_are_present() -> None:
    """Those of google/protobuf are in protoc's own folder."""
    google, confluent = (
        (f"google/type/{one}.proto" for one in GOOGLE.split()),
        (f"confluent/{one}.proto" for one in CONFLUENT),
    )
    assert sorted([*google, *confluent]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_content_that_its_package_publishes(name: str) -> None:
    found = well_known(name)
    assert found is not None
    found.name = name
    _without_json_names(found)
    theirs = published(name)
    _without_json_names(theirs)
    assert str(found) == str(theirs)


def _without_json_names(file: FileDescriptorProto) -> None:
    """protoc adds them, and they follow from the names."""
    messages = list(file.message_type)
    for message in messages:
        messages += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    for field in file.extension:
        field.ClearField("json_name")


def test_a_schema_imports_them_without_references() -> None:
    found = parse("PROTOBUF", ORDER, {})
    assert parse("PROTOBUF", found.normalized(), {}).reads(found) == []
    assert found.normal_text() == ORDER.strip()  # it has options of its own
    with pytest.raises(InvalidSchema):
        parse("PROTOBUF", ORDER.replace("money", "coins"), {})


def test_a_reference_of_the_same_name_comes_first() -> None:
    own = 'syntax = "proto3"; package google.type; message Money { string text = 1; }'
    text = 'syntax = "proto3"; import "google/type/money.proto"; message A { google.type.Money price = 1; }'
    references = {"google/type/money.proto": own}
    value = b"\x00\x0a\x03\x0a\x017"
    assert decoder_of("PROTOBUF", text, references)(value) == {"price": {"text": "7"}}
    assert decoder_of("PROTOBUF", text, {})(value) == {"price": {"currency_code": "7"}}
    encoded = parse("PROTOBUF", text, references).normalized()
    assert decoder_of("PROTOBUF", encoded, references)(value) == {"price": {"text": "7"}}


def test_their_values_are_decoded() -> None:
    price, weight = b"\x0a\x07\x0a\x03EUR\x10\x07", b"\x12\x05\x0a\x01\x07\x18\x02"
    assert decoder_of("PROTOBUF", ORDER, {})(b"\x00" + price + weight) == {
        "price": {"currency_code": "EUR", "units": "7"},
        "weight": {"value": "Bw==", "scale": 2},
    }


def test_protoc_is_not_that_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp another user may have put it there."""
    (tmp_path / "grpc_tools.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    found = compiled('syntax = "proto3"; message Order {}', {})
    assert [message.name for message in found.message_type] == ["Order"]


@pytest.mark.parametrize(
    ("data", "path", "start"),
    [
        (b"\0rest", [0], 1),
        (b"\2\0rest", [0], 2),
        (b"\2\2rest", [1], 2),
        (b"\4\2\4rest", [1, 2], 3),
        (b"\2\x80\1rest", [64], 3),
        (b"\xc8\1" + b"\2" * 100, [1] * 100, 102),
    ],
)
def test_a_message_is_found_by_its_indexes(data: bytes, path: list[int], start: int) -> None:
    assert _message_indexes(data) == (path, start)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no message index"),
        (b"\2", "no message index"),
        (b"\2\x80", "no message index"),
        (b"\x80\x80\x80\x80\x80\1", "no message index"),
        (b"\1", "-1 message indexes"),
        (b"\xca\1" + b"\2" * 101, "101 message indexes"),
        (b"\2\1", "a negative message index"),
    ],
)
def test_message_indexes_that_lead_to_no_message_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _message_indexes(data)


def test_a_schema_of_an_unknown_type_has_no_decoder() -> None:
    with pytest.raises(UnknownType, match="schemas of type XML are not known here"):
        decoder_of("XML", "", {})
    assert decoder_of("JSON", "", {})(b'{"a": [1, null]}') == {"a": [1, None]}


def test_values_without_a_type_in_json_are_texts() -> None:
    assert plain(b"a\xff") == "a\u00ff"
    assert plain(date(2026, 11, 30)) == "2026-11-30"
    assert plain(Decimal("1.50")) == "1.50"
