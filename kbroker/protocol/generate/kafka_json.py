"""Reads Kafka's own message schemas (common/message/*.json inside its jars) into shapes.

Used to check what kio says, and as the source of the coordinator records, which kio does not have.
"""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbroker.protocol.generate.shapes import FieldShape, MessageShape, StructShape, Versions, implicit_default

COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
TRAILING_COMMENT = re.compile(r"(?<=[,\]\}])\s+//.*$", re.MULTILINE)


def snake_case(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def parse_versions(text: str, top: Versions) -> Versions | None:
    """ "3+", "2-5", "4" or "none", cut to the message's own range; None when nothing is left."""
    if text == "none":
        return None
    first, _, last = text.partition("-")
    if text.endswith("+"):
        low, high = int(text[:-1]), top[1]
    else:
        low, high = int(first), int(last or first)
    low, high = max(low, top[0]), min(high, top[1])
    return (low, high) if low <= high else None


def _default(raw: Any, type_: str, nullable: bool) -> object:
    if raw is None:
        return implicit_default(type_, nullable)
    if raw == "null":
        return None
    if type_ == "bool":
        return str(raw).lower() == "true"
    if type_ in ("string", "bytes", "records"):
        return raw
    if type_ == "float64":
        return float(raw)
    return int(str(raw), 0)


class _Reader:
    def __init__(self, raw: dict[str, Any], top: Versions) -> None:
        self.top = top
        self.structs: list[StructShape] = []
        self.common = {s["name"]: s for s in raw.get("commonStructs", [])}

    def struct(self, name: str, raw_fields: list[dict[str, Any]], versions: Versions) -> None:
        if any(s.name == name for s in self.structs):
            return
        shape = StructShape(name, versions)
        for raw in raw_fields:
            field = self.field(raw, versions)
            if field is not None:
                shape.fields.append(field)
        self.structs.append(shape)

    def field(self, raw: dict[str, Any], owner: Versions) -> FieldShape | None:
        # A field of a nested struct may claim versions that the struct itself is not in.
        versions = parse_versions(raw.get("versions") or raw["taggedVersions"], owner)
        if versions is None:
            return None
        type_ = raw["type"]
        nullable = parse_versions(raw.get("nullableVersions", "none"), versions)
        name = type_.removeprefix("[]")
        if name[0].isupper():
            if "fields" in raw:
                self.struct(name, raw["fields"], versions)
            else:  # several fields may share it, each with its versions
                self.struct(name, self.common[name]["fields"], self.top)
        tagged = parse_versions(raw.get("taggedVersions", "none"), versions)
        return FieldShape(
            snake_case(raw["name"]),
            type_,
            versions,
            _default(raw.get("default"), type_, nullable is not None),
            nullable,
            raw.get("tag") if tagged else None,
            tagged,
            raw.get("flexibleVersions") == "none",
        )


def parse_message(text: str) -> MessageShape | None:
    """The shape of a message from Kafka's JSON; None without any valid version."""
    raw = json.loads(TRAILING_COMMENT.sub("", COMMENT.sub("", text)))
    if raw["validVersions"] == "none":
        return None
    top = parse_versions(raw["validVersions"], (0, 32767))
    assert top is not None
    reader = _Reader(raw, top)
    reader.struct(raw["name"], raw["fields"], top)
    flexible = parse_versions(raw["flexibleVersions"], top)
    # A first flexible version below the oldest valid one still is the true answer to "is it
    # flexible".
    return MessageShape(
        raw["name"], raw["type"], raw.get("apiKey"), top, flexible[0] if flexible else None, reader.structs
    )


def messages_of(libs: Path, jar: str) -> Iterator[MessageShape]:
    """All messages of the newest `jar`-*.jar in the folder `libs`, by name."""
    paths = sorted(libs.glob(f"{jar}-[0-9]*.jar"))
    if not paths:
        raise FileNotFoundError(f"no {jar}-*.jar in {libs}")
    with zipfile.ZipFile(paths[-1]) as archive:
        for entry in sorted(archive.namelist()):
            if entry.startswith("common/message/") and entry.endswith(".json"):
                shape = parse_message(archive.read(entry).decode())
                if shape is not None:
                    yield shape
