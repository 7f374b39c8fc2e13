"""Files read as java.util.Properties.load reads them; every case was compared with it."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config import properties
from kbroker.config.setting import ConfigError


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b  ", {"a": "b  "}),
        ("a:b\nc d\ne\tf", {"a": "b", "c": "d", "e": "f"}),
        ("a = = b", {"a": "= b"}),
        ("a==b", {"a": "=b"}),
        ("# no\n ! no\n\n\t\nx=1 # part of the value", {"x": "1 # part of the value"}),
        ("a=b,\\\n   c,\\\r\n\td", {"a": "b,c,d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("key\\ with\\:all\\=1=2", {"key with:all=1": "2"}),
        ("a=\\t\\n\\u0041\\q", {"a": "\t\nAq"}),
        ("empty\nalso=", {"empty": "", "also": ""}),
        ("a=1\ra=2", {"a": "2"}),
        ("\\\n#f=:", {}),
        ("\\\n\n.", {".": ""}),
        ("a=b\\", {"a": "b"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
        ("=x", {"": "x"}),
    ],
)
def test_reads_as_java_does(text: str, pairs: dict[str, str]) -> None:
    assert properties.parse(text) == pairs


def test_a_broken_unicode_escape_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^a: Malformed \\uxxxx encoding$"):
        properties.parse("a=\\u12g4")


def test_a_broken_unicode_escape_is_named_without_the_value(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=open\\users@me\n")
    with pytest.raises(ConfigError) as refused:
        properties.read(file)
    assert str(refused.value) == f"{file}: ssl.key.password: Malformed \\uxxxx encoding"
    with pytest.raises(ConfigError, match=r"^Malformed"):
        properties.parse("open\\users@me")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_escaped_keys_and_values_read_back(pairs: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in pairs.items())
    assert properties.parse(text) == pairs


@given(st.text(alphabet="ab=: \t\\\n\r#!u0041"))
def test_any_text_is_pairs_or_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        properties.parse(text)


def test_a_file_that_cannot_be_read_names_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.properties: No such file"):
        properties.read(tmp_path / "server.properties")
    latin = tmp_path / "latin.properties"
    latin.write_bytes(b"a=\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 2"):
        properties.read(latin)


def test_overrides_are_key_value() -> None:
    assert properties.parse_overrides(["a=b=c", " k =v"]) == {"a": "b=c", "k": "v"}
    for bad in ("a", "=b", ""):
        with pytest.raises(ConfigError, match="expected key=value"):
            properties.parse_overrides([bad])


@pytest.mark.parametrize(("override", "key"), [("log.dirs=/d\udcff", "log.dirs"), ("a\udcff=b", r"a\\udcff")])
def test_an_override_that_is_not_utf8_is_refused_without_its_value(override: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"^--override {key}: not UTF-8$"):
        properties.parse_overrides([override])


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/data\r\nnum.partitions=3\r\n", encoding="utf-8-sig", newline="")
    assert properties.read(file) == {"log.dirs": "/data", "num.partitions": "3"}


def test_a_key_with_several_values_is_logged_without_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nssl.key.password=one\nnode.id=1\nssl.key.password=two\n")
    assert properties.read(file) == {"node.id": "1", "ssl.key.password": "two"}
    text = f"{file}: ssl.key.password has 2 different values; the last one is used"
    assert [record.getMessage() for record in caplog.records] == [text]
