"""The console's objects, created once from the context of the http process."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbroker.config.sites import sites_of
from kbroker.http.console.caller import Caller, Callers, callers_of
from kbroker.http.console.listener import ConsoleListener, listener_of
from kbroker.http.console.live import Live
from kbroker.http.console.report_files import ReportFolder
from kbroker.http.console.report_list import ReportList
from kbroker.http.console.request import Request
from kbroker.http.console.tuner import Page, Readings, Tuner, check
from kbroker.http.console.visible import Visible
from kbroker.http.control_view import ControlView
from kbroker.ipc.child import ChildContext
from kbroker.ipc.log_dir_errors import LogDirErrors

if TYPE_CHECKING:
    from kbroker.http.registry.decoder import SchemaDecoder


class Setup:
    """Runs in: http. host: address of the http process. page: renders the metrics of the given
    names."""

    def __init__(
        self,
        context: ChildContext,
        view: ControlView,
        live: Live,
        host: str,
        page: Page,
        schemas: "SchemaDecoder | None" = None,
    ) -> None:
        config = context.config
        self._context = context
        self._schemas = schemas
        self._view = view
        self.live = live
        self.readonly = config.get_bool("kbroker.console.readonly")
        self.over_tls = bool(config.get_str("kbroker.http.ssl.listener"))
        self.listener: ConsoleListener = listener_of(host, config)
        self.caller: Callers = callers_of(context, view, self.listener)
        self._nodes = tuple(site.node_id for site in sites_of(config))
        folder = config.get_str("kbroker.console.reports.dir")
        self._reports = ReportList(ReportFolder(folder)) if folder else None
        errors = LogDirErrors(config.log_dirs, context.shared)
        readings = Readings(page)
        self._tuner = Tuner(
            lambda now: check(now, readings, [path for path in errors.paths if errors.of(path)])
        )

    def visible(self, caller: Caller) -> Visible:
        """The names that a client may see."""
        return Visible(caller, self._context.config)

    def request(self, caller: Caller, values: Mapping[str, Any]) -> Request:
        """One request with its checked values."""
        return Request(
            caller,
            self.live,
            self._view,
            self._context.shared,
            self._context.config,
            self._context.cluster_id,
            self._context.ports,
            self._nodes,
            self._tuner,
            self._reports,
            self._schemas,
            values,
        )
