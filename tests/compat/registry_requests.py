"""Requests to the schema registry of a running broker."""

import base64
import json
import re
import urllib.error
import urllib.request
from typing import Any

from tests.peer.kbroker_node import KBroker

LISTEN = {"kbroker.schema.registry.listen": "127.0.0.1:0"}
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


def url_of(node: KBroker) -> str:
    return re.findall(r"kbroker ready.*registry=(\S+)", node.log_file.read_text())[-1]


def ask(url: str, body: Any = None, login: str = "", method: str | None = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    if login:
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers, method=method), timeout=60
        ) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
