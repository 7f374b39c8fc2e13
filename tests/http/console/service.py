"""The console of a running kbroker, asked over HTTP."""

import http.client
import json
import re
from typing import Any
from urllib.parse import urlencode

from tests.peer.kbroker_node import KBroker


class Service:
    """Where a broker's console is; keeps the cookie of a login."""

    def __init__(self, node: KBroker) -> None:
        found = re.findall(r"kbroker ready.*? console=http://(\S+)/", node.log_file.read_text())
        assert found, f"no console:\n{node.logs()}"
        self.address = found[-1]
        self.cookie = ""

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of one request."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        named = {"Cookie": self.cookie, **headers}
        if body is not None:
            named["Content-Type"] = "application/json"
        connection.request(method, path, None if body is None else json.dumps(body), named)
        answer = connection.getresponse()
        if given := answer.getheader("Set-Cookie"):
            self.cookie = given.partition(";")[0]
        data = answer.read()
        connection.close()
        return answer.status, json.loads(data)

    def get(self, path: str, **query: Any) -> Any:
        """An answer that must be good."""
        status, data = self.request("GET", f"{path}?{urlencode(query)}" if query else path)
        assert status == 200, f"{path}: {status} {data}"
        return data

    def change(self, path: str, **body: Any) -> tuple[int, Any]:
        """A POST as the page makes it."""
        csrf = self.get("/api/session")["csrf"] or ""
        headers = {"Origin": f"http://{self.address}", "X-CSRF-Token": csrf}
        return self.request("POST", path, body, **headers)
