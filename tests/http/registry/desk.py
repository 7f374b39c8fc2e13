"""A registry whose topic is a list in memory, asked as over HTTP."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kbroker.http.console.caller import Caller
from kbroker.http.registry.server import Registry
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import Row, SchemaTopic


class ListTopic(SchemaTopic):
    """The topic's records in order."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.write(None, rows)

    def _refreshed(self, caller: Caller | None) -> State:
        return self.state

    @contextmanager
    def _ready(self, caller: Caller | None) -> Iterator[None]:
        yield

    def check_rights(self, caller: Caller | None) -> None:
        """Anyone may write."""

    def write(self, caller: Caller | None, rows: Sequence[Row]) -> State:
        self.rows += rows
        for key, value in rows:
            self.state.apply(key, value)
        return self.state


class Desk:
    """Asks a registry: (status, answer)."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        no_client: Any = object()
        self.registry = Registry(lambda login, peer: no_client, "cluster", False)
        self.topic = ListTopic(rows)
        self.registry.topic = self.topic

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        status, answer = self.registry.answer(method, path, "", data)
        return int(status), json.loads(answer)

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """The id of a schema."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        status, answer = self("POST", f"/subjects/{subject}/versions", {"schema": text, **more})
        assert status == 200, answer
        return int(answer["id"])

    def again(self) -> "Desk":
        """A registry that has read the same records."""
        return Desk(self.topic.rows)


def record(*fields: Any, name: str = "Order") -> dict[str, Any]:
    """An Avro record of these fields: names of long fields, or whole fields."""
    members = [{"name": one, "type": "long"} if isinstance(one, str) else one for one in fields]
    return {"type": "record", "name": name, "fields": members}
