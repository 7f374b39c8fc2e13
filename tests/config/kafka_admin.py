"""A raw client for the config APIs, so that every field of an answer can be compared."""

import io
import socket
import struct
from types import TracebackType
from typing import Any, Self

from kio.schema.describe_configs.v4 import request as describe_request
from kio.schema.describe_configs.v4 import response as describe_response
from kio.schema.incremental_alter_configs.v1 import request as alter_request
from kio.schema.incremental_alter_configs.v1 import response as alter_response
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8

TOPIC_NAME = "settings"


class ConfigAdmin:
    """One connection; closed by its `with`."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def describe(self, resource_type: int, name: str) -> Any:
        """The one DescribeConfigsResult, with synonyms and documentation."""
        resource = describe_request.DescribeConfigsResource(
            resource_type=i8(resource_type), resource_name=name, configuration_keys=None
        )
        request = describe_request.DescribeConfigsRequest(
            resources=(resource,), include_synonyms=True, include_documentation=True
        )
        return self._call(request, describe_response.DescribeConfigsResponse).results[0]

    def validate(
        self, resource_type: int, name: str, *operations: tuple[int, str, str | None]
    ) -> tuple[int, str | None]:
        """Error code and text of IncrementalAlterConfigs with validate_only: nothing is changed."""
        configs = tuple(
            alter_request.AlterableConfig(name=key, config_operation=i8(op), value=value)
            for op, key, value in operations
        )
        resource = alter_request.AlterConfigsResource(
            resource_type=i8(resource_type), resource_name=name, configs=configs
        )
        request = alter_request.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
        answer = self._call(request, alter_response.IncrementalAlterConfigsResponse).responses[0]
        return answer.error_code.value, answer.error_message

    def _call(self, request: Any, response: Any) -> Any:
        self._correlation += 1
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        header = struct.pack(
            ">hhih", request.__api_key__, request.__version__, self._correlation, len(b"config-tests")
        )
        frame = header + b"config-tests" + b"\0" + body.getvalue()
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        return entity_reader(response)(answer, 5)[0]

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data
