"""The normal text of a .proto file is compiled to the same descriptor, whatever the file had."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kbroker.http.registry.formats.protobuf_format import WELL_KNOWN, compiled, parse
from kbroker.http.registry.formats.protobuf_text import MAX_BYTES, normal_text, printed

pytestmark = pytest.mark.slow  # protoc is a process of its own

WHOLE = """
// a comment
syntax = "proto3";
package shop.orders;
import public "google/protobuf/timestamp.proto";
option java_package = "com.example.\\"shop\\"";
option optimize_for = SPEED;
message Order {
  reserved 5, 7 to 9, 1000 to max; reserved "old";
  message Item { string sku = 1 [deprecated = true]; }
  map<string, Item> items = 1;
  oneof payment { string card = 2; int64 cash_in_cents = 3 [json_name = "cash"]; }
  optional int32 size = 4;
  repeated double weights = 6 [packed = false];
  State state = 10; google.protobuf.Timestamp at = 11; shop.orders.Order parent = 12;
  enum State { option allow_alias = true; reserved 3 to 5; NEW = 0; FRESH = 0; OLD = -1; }
}
service Orders {
  rpc Put (stream Order) returns (Order) { option deprecated = true; }
  rpc Get (Order) returns (stream Order);
}
"""
OLD = """
syntax = "proto2";
message A {
  required int32 a = 1 [default = -3]; optional string b = 2 [default = "x\\"y\\n"]; repeated B c = 3;
  optional bytes d = 4 [default = "\\001\\""]; optional double e = 5 [default = inf];
  optional B f = 6 [default = TWO];
  extensions 100 to 199;
  extend A { optional int32 inner = 100; }
}
enum B { ONE = 1; TWO = 2; }
extend A { optional string outer = 101; }
"""


def again(text: str) -> FileDescriptorProto:
    return compiled(text, {})


@pytest.mark.parametrize("text", [WHOLE, OLD, 'syntax = "proto3";', "message A { optional int32 a = 1; }"])
def test_a_normal_text_has_the_same_content_and_is_its_own_normal_text(text: str) -> None:
    found = normal_text(again(text), again)
    assert found is not None, printed(again(text))
    assert normal_text(again(found), again) == found
    assert "comment" not in found


FILES = sorted(file for folder in WELL_KNOWN for file in folder.rglob("*.proto"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_googles_own_files_have_a_normal_text(file) -> None:  # type: ignore[no-untyped-def]
    text = file.read_text()
    assert normal_text(again(text), again) is not None or "feature" in text


def test_the_layout_of_a_file_does_not_matter() -> None:
    one = 'syntax = "proto3"; message A { map<string, int32> a = 1; message B {} B b = 2; }'
    other = one.replace(" ", "\n  ").replace("{", "{ // text\n")
    assert parse(one, {}).normal_text() == parse(other, {}).normal_text() != one


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto2"; message A { optional group B = 1 { optional int32 c = 2; } }',
        (
            'syntax = "proto3"; import "google/protobuf/descriptor.proto"; '
            "extend google.protobuf.FieldOptions { string mine = 50000; } "
            'message A { int32 a = 1 [(mine) = "x"]; }'
        ),
    ],
    ids=["group", "own option"],
)
def test_a_file_without_a_normal_text_is_stored_as_it_was_sent(text: str) -> None:
    assert parse(text, {}).normal_text() == text


def test_a_long_file_is_stored_as_it_was_sent() -> None:
    text = (
        'syntax = "proto3"; '
        + "".join(f"message M{number} {{}} " for number in range(MAX_BYTES // 8)).strip()
    )
    assert parse(text, {}).normal_text() == text
