"""`python -m kbroker.protocol.generate.compare <folder of jars>`: the shapes beside Kafka's own
schemas.

Prints every difference in names, types, versions, nullability, tags and defaults; exit code 1 if
there is any.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from kbroker.protocol.generate.kafka_json import messages_of
from kbroker.protocol.generate.kio_source import api_messages, data_messages
from kbroker.protocol.generate.shapes import MessageShape, StructShape


def _wire_order(struct: StructShape, version: int) -> list[str]:
    present = [f for f in struct.fields if f.versions[0] <= version <= f.versions[1]]
    return [f.name for f in present if f.tag is None]


def _struct_differences(where: str, ours: StructShape, kafka: StructShape) -> Iterator[str]:
    theirs = {f.name: f for f in kafka.fields}
    names = [f.name for f in ours.fields]
    for name in theirs:
        if name not in names:
            yield f"{where}: lacks {name} ({theirs[name]})"
    for field in ours.fields:
        other = theirs.get(field.name)
        if other is None:
            yield f"{where}: {field.name} is not Kafka's ({field.type})"
        elif field != other:
            yield f"{where}.{field.name}:\n    ours  {field}\n    kafka {other}"
    for version in range(ours.versions[0], ours.versions[1] + 1):
        order, expected = _wire_order(ours, version), _wire_order(kafka, version)
        if order != expected:
            yield f"{where}: order in v{version} {order}, Kafka's {expected}"


def differences(ours: MessageShape, kafka: MessageShape) -> Iterator[str]:
    for what in ("versions", "flexible", "api_key"):
        if getattr(ours, what) != getattr(kafka, what):
            yield f"{ours.name}: {what} {getattr(ours, what)}, Kafka has {getattr(kafka, what)}"
    theirs = {s.name: s for s in kafka.structs}
    for struct in ours.structs:
        if struct.name in theirs:
            yield from _struct_differences(f"{ours.name}/{struct.name}", struct, theirs.pop(struct.name))
        else:
            yield f"{ours.name}: struct {struct.name} is not Kafka's"
    for name in theirs:
        yield f"{ours.name}: lacks struct {name}"


def all_differences(libs: Path) -> Iterator[str]:
    kafka = {m.name: m for m in messages_of(libs, "kafka-clients")}
    ours = [m for _, _, request, response in api_messages() for m in (request, response)]
    ours += [m for _, m in data_messages()]
    for message in ours:
        if message.name in kafka:
            yield from differences(message, kafka[message.name])
        else:
            yield f"{message.name}: not in Kafka"
    known = {m.name for m in ours}
    for name, message in kafka.items():
        if name not in known and message.kind in ("request", "response"):
            yield f"{name}: missing (key {message.api_key}, versions {message.versions})"


def main() -> int:
    found = list(all_differences(Path(sys.argv[1])))
    sys.stdout.write("".join(line + "\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
