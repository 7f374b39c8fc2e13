"""The console's answers over HTTP, without a broker beside it."""

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kbroker.http.console import streams
from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.console.caller import Caller
from kbroker.http.console.refusal import unavailable
from kbroker.http.console.scram_client import ScramFailed
from kbroker.http.console.service import BODY_BYTES
from kbroker.http.console.sessions import TRIES
from kbroker.http.console.static_files import load
from kbroker.ipc.http_messages import GroupSummary
from tests.http.console.served import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.close()


@pytest.fixture
def changeable(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, kbroker_console_readonly="false")
    yield made
    made.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Served]:
    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    made = Served(tmp_path, "10.0.0.5", **listeners)
    yield made
    made.close()


def test_the_page_comes_with_its_guards_and_is_not_sent_twice(served: Served) -> None:
    status, headers, body = served.ask("GET", "/")
    assert status == 200
    assert b"<!doctype html>" in body
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert served.ask("GET", "/", If_None_Match=headers["ETag"])[0] == 304
    assert served.ask("HEAD", "/")[2] == b""


def test_a_file_of_the_page_is_packed_once(served: Served) -> None:
    for name in load():
        _, plain, body = served.ask("GET", f"/console/{name}")
        status, headers, packed = served.ask("GET", f"/console/{name}", Accept_Encoding="gzip")
        assert (status, headers["Content-Encoding"], "Content-Encoding" in plain) == (200, "gzip", False)
        assert gzip.decompress(packed) == body


def test_every_path_that_is_read_has_a_head(served: Served) -> None:
    for path in ("/api/overview", "/api/session", "/api/openapi.json"):
        status, headers, body = served.ask("HEAD", path)
        assert (status, headers["Content-Type"], body) == (200, "application/json", b"")
    assert served.ask("HEAD", "/api/nothing")[0] == 404


def test_every_file_of_the_page_has_a_type_and_none_is_outside(served: Served) -> None:
    for name in load():
        assert served.ask("GET", f"/console/{name}")[0] == 200
    for path in ("/console/../site.py", "/console/%2e%2e/site.py", "/console//etc/passwd", "/console/"):
        assert served.ask("GET", path)[0] == 404


def test_metrics_and_probes_are_served_beside_it(served: Served) -> None:
    assert served.ask("GET", "/metrics", Host="prometheus.example")[0] == 200
    assert served.ask("GET", "/healthz")[0] == 200


def test_a_rebound_name_is_refused(served: Served) -> None:
    for path in ("/", "/api/session", "/api/overview"):
        status, _, body = served.ask("GET", path, Host="evil.example:80")
        assert status == 421
        assert b"csrf" not in body


def test_the_overview_needs_no_broker_and_the_rest_says_that_it_does(served: Served) -> None:
    status, headers, body = served.ask("GET", "/api/overview")
    assert status == 200
    assert headers["Cache-Control"] == "no-store"
    assert json.loads(body)["sample"]["partition_count"] == 0
    status, _, body = served.ask("GET", "/api/groups")
    assert status == 503
    assert json.loads(body)["error"] == "unavailable"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/nothing", 404), ("/api/topics?limit=x", 400), ("/api/topics?limit=1&limit=2", 400),
     ("/api/topics?search=%ff", 400), ("/api/topics/%ff", 400), ("/api/topics/a%00b", 400),
     ("/api/topics/" + "x" * 300, 400), ("/api/topics/a/messages?start=never", 400), ("/api/events?x=1", 400),
     ("/api/topics/a/b/tail", 404), ("/api/topics?" + "&".join(f"a{n}=1" for n in range(40)), 400)],
)  # fmt: skip
def test_requests_that_make_no_sense_are_answered_in_one_line(
    served: Served, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    found, _, body = served.ask("GET", path)
    assert found == status
    assert "\n" not in json.loads(body)["message"]
    assert not caplog.records


def test_a_topic_may_be_called_tail(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page is no stream."""
    streamed: list[str] = []

    def tail(request: Any) -> NoReturn:
        streamed.append(request["topic"])
        raise unavailable("away")

    monkeypatch.setattr(streams, "tail", tail)
    for path in ("/api/topics/tail", "/api/topics/tail/tail"):
        served.ask("GET", path)
    assert streamed == ["tail"]


def test_other_methods_are_refused(served: Served) -> None:
    status, headers, body = served.ask("POST", "/api/groups", {})
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(body)["message"] == "this path accepts only GET"
    assert served.ask("POST", "/api/groups", b"", Content_Type="text/plain")[0] == 405  # not 415
    assert served.ask("POST", "/", {})[0] == 405
    assert served.ask("POST", "/metrics", {})[0] == 501


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"])
def test_every_method_is_refused_in_the_form_of_the_api(served: Served, method: str) -> None:
    for path, allowed in (
        ("/api/groups", "GET, HEAD"),
        ("/api/topics", "GET, HEAD, POST"),
        ("/", "GET, HEAD"),
        ("/api/session", "GET, HEAD"),
        ("/api/login", "POST"),
        ("/api/topics/t/tail", "GET"),
    ):
        status, headers, body = served.ask(method, path, Origin="http://elsewhere.example")
        assert (status, json.loads(body)["error"]) == (405, "method")
        assert headers["Allow"] == allowed
        assert not [name for name in headers if name.startswith("Access-Control")]
    status, _, body = served.ask(method, "/metrics")
    assert (status, b"<" in body) == (501, False)


def test_nothing_is_changed_while_it_only_reads(served: Served) -> None:
    status, body = served.change("/api/topics", {"name": "new"})
    assert (status, body["error"]) == (403, "readonly")


def test_changes_need_a_page_of_this_server_and_its_token(changeable: Served) -> None:
    csrf = json.loads(changeable.ask("GET", "/api/session")[2])["csrf"]
    ours = f"http://127.0.0.1:{changeable.port}"
    for headers in ({}, {"X_CSRF_Token": csrf}, {"X_CSRF_Token": csrf, "Origin": "http://evil.example"}):
        status, _, body = changeable.ask("POST", "/api/topics", {"name": "new"}, **headers)
        assert (status, json.loads(body)["error"]) == (403, "origin")
    for token in ("", "wrong"):
        status, _, body = changeable.ask(
            "POST", "/api/topics", {"name": "n"}, Origin=ours, X_CSRF_Token=token
        )
        assert (status, json.loads(body)["error"]) == (403, "csrf")
    assert (
        changeable.change("/api/topics", {"name": "new"})[0] == 503
    )  # past the gate, at a broker that is away


def test_a_form_of_another_page_can_not_pass_for_json(changeable: Served) -> None:
    headers = {"Content_Type": "text/plain", "Origin": f"http://127.0.0.1:{changeable.port}"}
    assert changeable.ask("POST", "/api/topics", b'{"name": "x"}', **headers)[0] == 415
    for kind in ("application/json; charset=utf-8", "Application/JSON ;x=y"):
        headers["Content_Type"] = kind
        assert changeable.ask("POST", "/api/topics", b'{"name": "x"}', **headers)[0] == 403, "no token"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"\xff", b"[" * 50_000, b'{"name": 1}', b'{"name": "\\ud800"}',
     b'{"name": "a", "partitions": 1e999}', b'{"name": "a", "settings": {"x": NaN}}', b"Infinity"],
)  # fmt: skip
def test_bodies_that_are_no_request_are_refused(changeable: Served, body: bytes) -> None:
    csrf = json.loads(changeable.ask("GET", "/api/session")[2])["csrf"]
    headers = {"Origin": f"http://127.0.0.1:{changeable.port}", "X_CSRF_Token": csrf}
    assert changeable.ask("POST", "/api/topics", body, **headers)[0] == 400


def test_bodies_are_bounded(changeable: Served) -> None:
    assert changeable.ask("POST", "/api/topics", b" " * (BODY_BYTES + 1))[0] == 413
    assert changeable.ask("POST", "/api/topics", None, Content_Length="-1")[0] == 400
    chunked = {"Transfer_Encoding": "chunked", "Content_Type": "application/json"}
    assert changeable.ask("POST", "/api/topics", None, **chunked)[0] == 411


def test_elsewhere_everything_but_the_page_needs_a_login(elsewhere: Served) -> None:
    assert elsewhere.ask("GET", "/", Host="broker.example")[0] == 200
    session = json.loads(elsewhere.ask("GET", "/api/session")[2])
    assert (session["access"], session["user"], session["csrf"]) == ("login", None, None)
    for path in ("/api/overview", "/api/topics", "/api/events", "/api/topics/t/tail"):
        assert elsewhere.ask("GET", path)[0] == 401
        assert elsewhere.ask("GET", path, Cookie="kbroker_session=guess")[0] == 401


def test_logins_come_from_our_own_page(elsewhere: Served) -> None:
    assert elsewhere.ask("POST", "/api/login", {"user": "a", "password": "b"})[0] == 403
    assert elsewhere.change("/api/login", {"user": "", "password": "b"})[0] == 400
    assert elsewhere.change("/api/login", {"user": "a", "password": "b"})[0] == 503  # the broker is away


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """How the next logins end at the broker, None for well; without any left, all do."""
    ends: list[BaseException | None] = []

    def log_in(self: Caller) -> None:
        if ends and (error := ends.pop(0)) is not None:
            raise error

    monkeypatch.setattr(Caller, "log_in", log_in)
    return ends


def logged_in(served: Served, user: str = "ann") -> tuple[dict[str, str], str]:
    """The headers of the session's changes, and its Set-Cookie."""
    ours = f"http://127.0.0.1:{served.port}"
    status, headers, body = served.ask("POST", "/api/login", {"user": user, "password": "p"}, Origin=ours)
    assert status == 200
    cookie = headers["Set-Cookie"]
    session = json.loads(body)
    assert (session["user"], session["access"]) == (user, "login")
    return {"Cookie": cookie.partition(";")[0], "Origin": ours, "X_CSRF_Token": session["csrf"]}, cookie


def test_a_session_is_its_users_until_the_logout(
    elsewhere: Served, logins: list[BaseException | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    askers: list[str | None] = []

    def ask(self: Caller, *_: object, **__: object) -> None:
        askers.append(self.user)
        raise unavailable("away")

    monkeypatch.setattr(Caller, "ask", ask)
    ann, cookie = logged_in(elsewhere)
    bob, _ = logged_in(elsewhere, "bob")
    assert cookie.partition(";")[2] == " Path=/; HttpOnly; SameSite=Strict"
    for headers, user in ((ann, "ann"), (bob, "bob")):
        session = json.loads(elsewhere.ask("GET", "/api/session", Cookie=headers["Cookie"])[2])
        assert (session["user"], session["csrf"]) == (user, headers["X_CSRF_Token"])
        assert elsewhere.ask("GET", "/api/groups", Cookie=headers["Cookie"])[0] == 503
    assert askers == ["ann", "bob"]
    for missing in ("Origin", "X_CSRF_Token"):
        part = {name: value for name, value in ann.items() if name != missing}
        assert elsewhere.ask("POST", "/api/logout", {}, **part)[0] == 403
    crossed = ann | {"X_CSRF_Token": bob["X_CSRF_Token"]}
    assert elsewhere.ask("POST", "/api/logout", {}, **crossed)[0] == 403
    status, headers, body = elsewhere.ask("POST", "/api/logout", {}, **ann)
    assert (status, json.loads(body)["user"], json.loads(body)["csrf"]) == (200, None, None)
    assert headers["Set-Cookie"].startswith("kbroker_session=;")
    assert "Max-Age=0" in headers["Set-Cookie"]
    assert elsewhere.ask("GET", "/api/groups", Cookie=ann["Cookie"])[0] == 401
    assert elsewhere.ask("GET", "/api/groups", Cookie=bob["Cookie"])[0] == 503


@pytest.mark.parametrize("error", [LoginRefused("no"), ScramFailed("no")])
def test_failed_logins_are_few_and_do_not_use_up_the_places_of_others(
    elsewhere: Served, logins: list[BaseException | None], error: BaseException
) -> None:
    logins += [error] * TRIES
    wrong = {"user": "ann", "password": "wrong"}
    assert [elsewhere.change("/api/login", wrong)[0] for _ in range(TRIES + 1)] == [401] * TRIES + [429]


def test_logins_that_the_broker_did_not_check_are_not_limited(
    elsewhere: Served, logins: list[BaseException | None]
) -> None:
    """No client learns anything about a password while the broker restarts."""
    logins += [LinkBroken("away")] * (TRIES + 1)
    tried = {"user": "ann", "password": "p"}
    assert [elsewhere.change("/api/login", tried)[0] for _ in range(TRIES + 1)] == [503] * (TRIES + 1)
    logged_in(elsewhere)


def test_logins_that_succeed_are_not_limited(elsewhere: Served, logins: list[BaseException | None]) -> None:
    for _ in range(TRIES + 1):
        logged_in(elsewhere)


def test_two_logins_of_an_address_are_tried_at_a_time(
    elsewhere: Served, logins: list[BaseException | None]
) -> None:
    """The broker may let each wait: those of other addresses have places of their own."""
    places = elsewhere.console._logins
    assert [places.enter("192.0.2.1") for _ in range(3)] == [True, True, False]
    logged_in(elsewhere)
    assert [places.enter("127.0.0.1") for _ in range(3)] == [True, True, False]
    for _ in range(TRIES + 1):
        assert elsewhere.change("/api/login", {"user": "ann", "password": "p"})[0] == 503
    places.leave("127.0.0.1")
    logged_in(elsewhere)


def test_on_loopback_there_is_no_login(served: Served) -> None:
    assert served.change("/api/login", {"user": "a", "password": "b"})[0] == 400


def test_events_are_sent_until_there_are_too_many_readers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 1)
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    assert answer.readline() == b"retry: 2000\n"
    assert answer.readline() == b"\n"
    assert answer.readline() == b"event: sample\n"
    assert json.loads(answer.readline().removeprefix(b"data: "))["partition_count"] == 0
    assert served.ask("GET", "/api/events")[0] == 503
    answer.close()
    for _ in range(500):
        served.live.take()
        if served.console._streams.enter("a"):
            return
    pytest.fail("the place of a reader that left was not given back")


@pytest.mark.parametrize("end", ["logout", "changed password"])
def test_a_stream_is_its_users_until_the_session_ends(
    elsewhere: Served, logins: list[BaseException | None], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    session, _ = logged_in(elsewhere)
    headers = {"Cookie": session["Cookie"]}
    reply = elsewhere.console.answer("GET", "/api/events", headers, b"", "127.0.0.1")
    assert reply.stream is not None
    assert reply.stream.is_allowed()
    if end == "logout":
        assert elsewhere.ask("POST", "/api/logout", {}, **session)[0] == 200
    else:
        monkeypatch.setattr(Caller, "is_outdated", True)
    assert not reply.stream.is_allowed()


def test_a_client_that_leaves_before_the_head_of_its_stream_gives_its_place_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a few such clients end all streams until the next start."""
    monkeypatch.setattr(streams, "MAX_STREAMS", 1)
    console = served.console
    reply = console.answer("GET", "/api/events", {"Host": "localhost"}, b"", "127.0.0.1")
    assert reply.stream is not None
    assert console.answer("GET", "/api/events", {"Host": "localhost"}, b"", "127.0.0.1").stream is None

    def broken() -> None:
        raise BrokenPipeError

    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(BrokenPipeError):
        console.stream(ours, reply.stream, broken)
    assert console.answer("GET", "/api/events", {"Host": "localhost"}, b"", "127.0.0.1").stream is not None


def test_the_sample_counts_all_groups_and_names_those_with_the_largest_lag(served: Served) -> None:
    served.scene.view.summaries = tuple(
        GroupSummary(f"group-{number}", "classic", "Stable", 1, {}) for number in range(12)
    )
    sample = json.loads(served.ask("GET", "/api/overview")[2])["sample"]
    assert (sample["group_count"], len(sample["group_lag"])) == (12, 10)


def test_a_logout_needs_no_login_where_the_console_is_open(changeable: Served) -> None:
    assert changeable.change("/api/logout", {})[0] == 200
    assert changeable.ask("GET", "/api/overview")[0] == 200


@pytest.mark.parametrize("body", [{"user": "ann"}, [], "x", None])
def test_a_logout_has_no_members(changeable: Served, body: object) -> None:
    assert changeable.change("/api/logout", json.dumps(body).encode())[0] == 400


def test_a_change_without_changes_is_refused(changeable: Served) -> None:
    for path in ("/api/settings", "/api/topics/orders/settings"):
        bodies: tuple[object, ...] = ({}, {"settings": {}}, {"settings": {}, "validate_only": True})
        for body in bodies:
            status, answer = changeable.change(path, body)
            assert (status, answer["error"]) == (400, "bad_request"), answer
