"""The files that the generator writes: path under kbroker/protocol -> text."""

from pathlib import Path

from kbroker.protocol.generate.kafka_json import messages_of, snake_case
from kbroker.protocol.generate.kio_source import api_messages, data_messages
from kbroker.protocol.generate.render import HEADER, formatted, render_module
from kbroker.protocol.generate.shapes import MessageShape

COORDINATOR_JARS = {
    "kafka-group-coordinator": "CONSUMER_OFFSETS",
    "kafka-transaction-coordinator": "TRANSACTION_STATE",
    "kafka-share-coordinator": "SHARE_GROUP_STATE",
}

NOT_SPOKEN = frozenset(
    {
        "add_raft_voter", "allocate_producer_ids", "alter_partition", "assign_replicas_to_dirs", "begin_quorum_epoch",
        "broker_heartbeat", "broker_registration", "control_record_type_schema", "controller_registration",
        "delete_share_group_state", "end_quorum_epoch", "end_txn_marker", "envelope", "fetch_snapshot",
        "initialize_share_group_state", "leader_change_message",
        "read_share_group_state", "read_share_group_state_summary", "remove_raft_voter", "update_raft_voter", "vote",
        "write_share_group_state",
    }
)  # fmt: skip
"""Messages between nodes of a cluster, and others that no module imports: they are not
generated."""


def _versions_text(first: int, last: int) -> str:
    return f"v{first}" if first == last else f"v{first}-{last}"


def message_files() -> dict[str, str]:
    """messages/<api>.py for every API, messages/<name>.py for headers and data, and
    messages/index.py."""
    files = {}
    index = []
    for key, api, request, response in api_messages():
        if api in NOT_SPOKEN:
            continue
        assert request.versions == response.versions
        assert request.flexible == response.flexible
        index.append((key, api, request.name, response.name, *request.versions, request.flexible))
        name = request.name.removesuffix("Request")
        constants: dict[str, object] = {
            "API_KEY": key,
            "MIN_VERSION": request.versions[0],
            "MAX_VERSION": request.versions[1],
            "FLEXIBLE_VERSION": request.flexible,
        }
        title = f"{name} (key {key}), {_versions_text(*request.versions)}: request and response."
        files[f"messages/{api}.py"] = render_module(title, constants, (request, response))
    for name, message in data_messages():
        if name in NOT_SPOKEN:
            continue
        files[f"messages/{name}.py"] = _data_file(message)
    files["messages/index.py"] = _api_index(index)
    return files


def _data_file(message: MessageShape) -> str:
    constants: dict[str, object] = {"MIN_VERSION": message.versions[0], "MAX_VERSION": message.versions[1]}
    return render_module(f"{message.name}, {_versions_text(*message.versions)}.", constants, (message,))


def _api_index(rows: list[tuple[int, str, str, str, int, int, int | None]]) -> str:
    text = HEADER.format(title="All APIs by key: where their messages are and which versions they have.")
    text += "\nfrom collections.abc import Mapping\nfrom typing import Final, NamedTuple\n\n\n"
    text += "class ApiMessages(NamedTuple):\n"
    text += (
        '    """Classes are named, not imported: kbroker.protocol.messages imports one when asked for."""\n\n'
    )
    text += "    module: str\n    request: str\n    response: str\n"
    text += "    min_version: int\n    max_version: int\n    flexible: int | None\n\n\n"
    text += "APIS: Final[Mapping[int, ApiMessages]] = {\n"
    for key, *row in rows:
        text += f"    {key}: ApiMessages({', '.join(map(repr, row))}),\n"
    return formatted(text + "}\n")


def coordinator_record_files(libs: Path) -> dict[str, str]:
    """coordinator_records/<record>.py (key and value) and coordinator_records/index.py, from
    Kafka's jars."""
    files = {}
    imports = ["from kbroker.protocol.schema import Struct\n"]
    tables = ""
    for jar, topic in COORDINATOR_JARS.items():
        messages = {m.name: m for m in messages_of(libs, jar) if m.kind.startswith("coordinator")}
        names = sorted(
            (n.removesuffix("Key") for n in messages if n.endswith("Key")), key=lambda n: _type(messages, n)
        )
        tables += f"\n{topic}: Final[Mapping[int, tuple[type[Struct], type[Struct]]]] = {{\n"
        for name in names:
            module = snake_case(name)
            pair = (messages[name + "Key"], messages[name + "Value"])
            classes = ", ".join(m.name for m in pair)
            imports.append(f"from kbroker.protocol.coordinator_records.{module} import {classes}\n")
            type_ = _type(messages, name)
            tables += f"    {type_}: ({classes}),\n"
            title = f"{name} (record type {type_}): key and value."
            files[f"coordinator_records/{module}.py"] = render_module(title, {"RECORD_TYPE": type_}, pair)
        tables += "}\n"
    text = HEADER.format(
        title="The records of the coordinators' topics: record type -> (key class, value class)."
    )
    text += (
        "\nfrom collections.abc import Mapping\nfrom typing import Final\n\n"
        + "".join(sorted(imports))
        + tables
    )
    files["coordinator_records/index.py"] = formatted(text)
    return files


def _type(messages: dict[str, MessageShape], name: str) -> int:
    key = messages[name + "Key"].api_key
    assert key is not None
    return key
