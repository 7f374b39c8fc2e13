"""meta.properties of a log dir: the cluster and the node that it belongs to (Kafka's
MetaProperties, version 1).
"""

import time

from msgspec import Struct

from kbroker.config.plain_file import open_plain
from kbroker.log.checkpoint import replace_file
from kbroker.log.files import META_PROPERTIES
from kbroker.protocol.kafka_uuid import random_uuid

VERSION = 1
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class MetaPropertiesError(Exception):
    """A log dir belongs to another cluster or node, or its meta.properties does not parse."""


class MetaProperties(Struct, frozen=True):
    """Contents of the file. directory_id: random id of this log dir (KIP-858)."""

    cluster_id: str
    node_id: int
    directory_id: str


def read(folder: str) -> MetaProperties | None:
    """The file's contents, None when there is none. Raises MetaPropertiesError."""
    path = f"{folder}/{META_PROPERTIES}"
    try:
        with open_plain(path) as source:
            fields = _parse(source.read().decode("latin-1"))
    except FileNotFoundError:
        return None
    version = fields.get("version")
    if version is None:
        raise MetaPropertiesError(f"{path}: no version in it: the file is empty or damaged")
    if version != str(VERSION):
        raise MetaPropertiesError(
            f"{path}: version {version}, only {VERSION} is known (0 is of the ZooKeeper time)"
        )
    missing = [name for name in ("cluster.id", "node.id") if name not in fields]
    if missing:
        raise MetaPropertiesError(f"{path}: {' and '.join(missing)} missing")
    try:
        node_id = int(fields["node.id"])
    except ValueError as error:
        raise MetaPropertiesError(f"{path}: node.id is {fields['node.id']!r}") from error
    return MetaProperties(fields["cluster.id"], node_id, fields.get("directory.id", ""))


def write(folder: str, properties: MetaProperties) -> None:
    """Replace the file; the text is what java.util.Properties stores."""
    lines = [
        "#",
        time.strftime("#%a %b %d %H:%M:%S UTC %Y", time.gmtime()),
        f"cluster.id={_escape(properties.cluster_id)}",
        f"directory.id={_escape(properties.directory_id)}",
        f"node.id={properties.node_id}",
        f"version={VERSION}",
    ]
    replace_file(f"{folder}/{META_PROPERTIES}", "".join(f"{line}\n" for line in lines).encode("latin-1"))


def verify_or_create(folder: str, cluster_id: str, node_id: int) -> MetaProperties:
    """The log dir's identity; written when the folder has none. Raises MetaPropertiesError when it
    is another's."""
    found = read(folder)
    if found is None:
        found = MetaProperties(cluster_id, node_id, random_uuid())
        write(folder, found)
        return found
    for name, here, expected in (
        ("cluster.id", found.cluster_id, cluster_id),
        ("node.id", found.node_id, node_id),
    ):
        if here != expected:
            raise MetaPropertiesError(
                f"{folder}/{META_PROPERTIES}: {name} is {here}, this broker's is {expected}: "
                + (f"set {name}={here}" if name == "node.id" else "the log dirs are of different brokers")
            )
    if not found.directory_id:
        found = MetaProperties(found.cluster_id, found.node_id, random_uuid())
        write(folder, found)
    return found


def _parse(text: str) -> dict[str, str]:
    fields = {}
    for raw in text.splitlines():
        line = raw.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            fields[_unescape(name.strip())] = _unescape(value.strip())
    return fields


def _unescape(text: str) -> str:
    out, escaped = [], False
    for character in text:
        if not escaped and character == "\\":
            escaped = True
            continue
        out.append(_ESCAPES.get(character, character) if escaped else character)
        escaped = False
    return "".join(out)


def _escape(text: str) -> str:
    return "".join("\\" + character if character in "\\=:#!" else character for character in text)
