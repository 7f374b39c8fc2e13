"""A checked request of the API, which views and changes receive, and a row of the table of
routes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.caller import Caller
from kbroker.http.console.live import Live
from kbroker.http.console.report_list import ReportList
from kbroker.http.console.schema import Parameter, Schema
from kbroker.http.console.tuner import Tuner
from kbroker.http.control_view import ControlView
from kbroker.ipc.shared import Shared

if TYPE_CHECKING:
    from kbroker.http.registry.decoder import AnswerDecoder, SchemaDecoder


class Request(Struct, frozen=True):
    """values: checked parameters of path, query and body, by name. ports: bound port of each
    listener. nodes: node id of each replica site. reports: None if no folder is configured.
    schemas: None without a registry."""

    caller: Caller
    live: Live
    view: ControlView
    shared: Shared
    config: BrokerConfig
    cluster_id: str
    ports: Mapping[str, int]
    nodes: tuple[int, ...]
    tuner: Tuner
    reports: ReportList | None
    schemas: "SchemaDecoder | None"
    values: Mapping[str, Any] = field(default_factory=dict)

    def decoder(self) -> "AnswerDecoder | None":
        """The decoder of the records of one answer; None without a schema registry."""
        return None if self.schemas is None else self.schemas.answer(self.caller)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


Answer = Callable[[Request], Any]


class Route(Struct, frozen=True):
    """One row of the API. path: contains `{name}` for each parameter of in_path. A route with a
    body is a change."""

    path: str
    summary: str
    answer: Answer
    result: Schema
    query: tuple[Parameter, ...] = ()
    body: tuple[Parameter, ...] | None = None
    in_path: tuple[Parameter, ...] = ()
    tag: str = "broker"

    @property
    def method(self) -> str:
        """GET, or POST for a change."""
        return "GET" if self.body is None else "POST"
