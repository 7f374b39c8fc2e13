"""Settings of the broker, of topics and groups, each with its source."""

from typing import Any

from kbroker.http.console.refusal import check
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, TEXT, fields, many, maybe
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER_RESOURCE = 4
SOURCES = {
    1: "topic",
    2: "this broker, dynamic",
    3: "all brokers, dynamic",
    4: "server.properties",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
SETTING = fields(
    name=TEXT, value=maybe(TEXT), source=TEXT, type=TEXT, read_only=BOOL, sensitive=BOOL, text=TEXT
)
SETTINGS = fields(settings=many(SETTING))


def settings_of(request: Request, kind: int, name: str) -> list[dict[str, Any]]:
    """All settings of a resource, sorted by name, without sensitive values."""
    resource = DescribeConfigsResource(kind, name, None)
    api_request = DescribeConfigsRequest([resource], include_documentation=True)
    answer = request.caller.ask(ApiKey.DESCRIBE_CONFIGS, api_request).results[0]
    check(answer.error_code, name, answer.error_message)
    return [
        {
            "name": row.name,
            "value": None if row.is_sensitive else row.value,
            "source": SOURCES.get(row.config_source, "unknown"),
            "type": TYPES.get(row.config_type, "unknown"),
            "read_only": row.read_only,
            "sensitive": row.is_sensitive,
            "text": row.documentation or "",
        }
        for row in sorted(answer.configs, key=lambda row: row.name)
    ]


def check_may_read(request: Request, subject: str) -> None:
    """Raise the Refusal unless the user may describe the broker's settings: other facts about the
    host and its clients need the same permission."""
    key = "kbroker.console.reports.dir"
    resource = DescribeConfigsResource(BROKER_RESOURCE, str(request.config.node_id), [key])
    answer = request.caller.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource])).results[0]
    check(answer.error_code, subject, answer.error_message)


def broker_settings(request: Request) -> dict[str, Any]:
    """The settings of this broker."""
    return {"settings": settings_of(request, BROKER_RESOURCE, str(request.config.node_id))}
