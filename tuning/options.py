"""Options that several commands of `kbroker tune` share: settings, sources, and the workload."""

from pathlib import Path
from typing import Annotated

import typer

from tuning.quantity import show_rate, show_seconds
from tuning.workload import Workload

ASSUMED = Workload()
"""The workload of options that are not given, and that nothing else shows."""
OF_SETTINGS = "as the settings"
OF_HOST = "this host's"
Properties = Annotated[
    Path | None,
    typer.Option("--config", help="The broker's properties file.", show_default="Kafka's defaults"),
]
Override = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting that overrides the file; repeatable."),
]
Dirs = Annotated[
    list[str] | None,
    typer.Option(
        "--dir",
        metavar="FOLDER",
        help="Log directory; repeatable.",
        show_default="log.dirs of the settings, else of --metrics",
    ),
]
Metrics = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Metrics of a running broker, host:port or URL: 127.0.0.1:9404.",
        show_default="none is read",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--coefficients",
        help="File of `tune bench` with the measured speeds of this host.",
        show_default="kbroker.host.file of --config, else ./host.json if it exists",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES/S",
        help="Bytes a second that producers write, compressed: 200MB/s; a number without a unit is bytes.",
        show_default=f"the broker's at --metrics, else {show_rate(ASSUMED.write_rate)}",
    ),
]
Retention = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Retention of records: 3d; forever.", show_default=OF_SETTINGS),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        help="Number of partitions of all topics.",
        show_default=f"those at --metrics or in the log dirs, else {ASSUMED.partitions}",
    ),
]
Consumers = Annotated[
    int | None,
    typer.Option(
        help="Number of consumer groups that keep up.",
        show_default=f"the groups at --metrics, else {ASSUMED.groups}",
    ),
]
Lagging = Annotated[
    int | None,
    typer.Option(help="Number of groups that read from the disk.", show_default=str(ASSUMED.lagging_groups)),
]
Lag = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Maximum lag of the groups that keep up: 60s.",
        show_default=show_seconds(ASSUMED.lag_s),
    ),
]
Copies = Annotated[
    int | None, typer.Option(help="Number of replicas on this host.", show_default=str(ASSUMED.copies))
]
Connections = Annotated[
    int | None,
    typer.Option(
        help="Number of client connections.",
        show_default=f"those at --metrics, else {ASSUMED.connections}",
    ),
]
Batch = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        help="Size of a produce request: 16KiB.",
        show_default=f"the mean at --metrics, else {ASSUMED.batch_bytes // 1024} KiB",
    ),
]
Remote = Annotated[
    bool | None,
    typer.Option(
        "--remote/--local", help="Clients are on other hosts.", show_default="as the listeners of --config"
    ),
]
Rtt = Annotated[
    float | None,
    typer.Option(metavar="MS", help="Round trip of remote clients.", show_default=f"{ASSUMED.rtt_ms:g} ms"),
]
Durable = Annotated[
    bool | None,
    typer.Option("--durable/--cached", help="Acknowledgements wait for the disk.", show_default=OF_SETTINGS),
]
Tls = Annotated[bool | None, typer.Option("--tls/--plain", help="Clients use TLS.", show_default="plain")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
