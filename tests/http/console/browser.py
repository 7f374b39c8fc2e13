"""Debian's Chromium without a screen, driven over its debugging pipe: no library, no port."""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
DEADLINE_S = 120.0  # a busy machine is no failure
MISSING = "chromium is missing: apt-get install chromium"


def program() -> str | None:
    """Where a Chromium is, None when there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def may_skip() -> bool:
    """Whether tests in a browser may be skipped: not in CI, where they fail without one."""
    return program() is None and os.environ.get("CI") != "true"


IN_A_BROWSER = pytest.mark.skipif(may_skip(), reason=MISSING)


class Browser:
    """One browser with one page. Owner: a test, which closes it. problems: what its console said
    was wrong. held: ids of the requests whose answers are held back."""

    def __init__(self, folder: Path) -> None:
        found = program()
        assert found is not None, MISSING
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        keep = (to_read, to_write)
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        arguments = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-sandbox"]
        quiet = ["--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"]
        offline = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, found, *arguments, *quiet, *offline, "about:blank"],
            pass_fds=keep,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in keep:
            os.close(fd)
        os.set_blocking(self._write, False)
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.problems: list[str] = []
        self.requested: list[str] = []
        self.held: list[str] = []
        try:
            self._attach()
        except BaseException:
            self._process.kill()
            raise

    def _attach(self) -> None:
        """Talk to its page."""
        pages = [page for page in self.call("Target.getTargets")["targetInfos"] if page["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        deadline = time.monotonic() + DEADLINE_S
        self._send(json.dumps(message).encode() + b"\0", deadline)
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, address: str) -> None:
        """Load a page from nothing."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def size(self, width: int, height: int, scale: float = 1.0) -> None:
        """Of the window, in its own pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=width < 600,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """What prefers-color-scheme says: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, f"{script}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"never came true: {script}; page:\n{self.text()}"
            time.sleep(0.05)

    def hold(self, pattern: str) -> None:
        """Keep answers from the page, until `release`. pattern: of their addresses, * is any
        text."""
        self.call("Fetch.enable", patterns=[{"urlPattern": pattern, "requestStage": "Response"}])

    def release(self) -> None:
        """Give the page the answers that were held back, and later ones at once."""
        self.call("Fetch.disable")
        self.held.clear()

    def text(self) -> str:
        """What a reader sees."""
        return str(self.run("document.body.innerText"))

    def press(self, key: str, code: str = "") -> None:
        """One key."""
        more = {"text": key} if len(key) == 1 else {}
        if key == "Enter":
            more = {"text": "\r", "windowsVirtualKeyCode": 13}  # type: ignore[dict-item]
        elif key in ("Tab", "Escape"):
            more = {"windowsVirtualKeyCode": {"Tab": 9, "Escape": 27}[key]}  # type: ignore[dict-item]
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self.call("Browser.close")
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait(DEADLINE_S)
            os.close(self._write)
            os.close(self._read)

    def _send(self, data: bytes, deadline: float) -> None:
        """A browser that hangs reads nothing, and a script is larger than the pipe."""
        while data:
            poll = select.poll()
            poll.register(self._write, select.POLLOUT)
            assert poll.poll(max(0.0, deadline - time.monotonic()) * 1000), "the browser does not read"
            data = data[os.write(self._write, data) :]

    def _next(self, deadline: float) -> Any:
        while b"\0" not in self._buffer:
            poll = select.poll()
            poll.register(self._read, select.POLLIN)
            assert poll.poll(max(0.0, deadline - time.monotonic()) * 1000), "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, parameters: dict[str, Any]) -> None:
        if event == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.problems.append(f"{entry['level']}: {entry['text']} ({entry.get('url', '')})")
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(str([each.get("value") for each in parameters["args"]]))
        elif event == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])
        elif event == "Fetch.requestPaused":
            self.held.append(parameters["requestId"])
