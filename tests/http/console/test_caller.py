"""The pool of connections of a caller: kept, used again, given up; and how many requests there are
at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from kbroker.http.console import caller as module
from kbroker.http.console.broker_link import DEADLINE_S, LinkBroken, LoginRefused
from kbroker.http.console.caller import IDLE_LINKS, IDLE_S, Caller
from kbroker.http.console.refusal import NotServed, QuotaUsedUp, Refusal, unavailable
from kbroker.http.console.scram_client import CredentialChanged, ScramFailed
from kbroker.http.console.turns import OF_A_USER, Turns
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.metadata import MetadataRequest

READ, CHANGE = ApiKey.METADATA, ApiKey.CREATE_TOPICS


class Link:
    """Stands for a BrokerLink, and for its answers. fails: what its next request raises."""

    throttle_time_ms = 0
    delay_ms = 0

    def __init__(self, site: int) -> None:
        self.site = site
        self.login: Any = None
        self.requests: list[ApiKey] = []
        self.closed = 0
        self.fails: BaseException | None = None

    def ask(self, api: ApiKey, request: object, version: int | None, deadline_s: float) -> object:
        self.requests.append(api)
        if self.fails is not None:
            raise self.fails
        return self

    def close(self) -> None:
        self.closed += 1


class Scene:
    """A caller of two sites, of the nodes 5 and 6. fails: what opening the next link raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, login: Any = None) -> None:
        self.now_s = 1000.0
        self.links: list[Link] = []
        self.fails: BaseException | None = None
        self.slept: list[float] = []
        self.was_free: list[bool] = []
        self.turns = Turns(at_a_time=1)
        monkeypatch.setattr(module, "BrokerLink", lambda address, tls, deadline_s: self._made(address[1]))
        monkeypatch.setattr(module, "WAIT_S", 0.001)
        self.caller = Caller(
            lambda site: ("host", site), (5, 6), None, self.turns, login, lambda: self.now_s, self._sleep
        )

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.was_free.append(self.is_free)
        self.now_s += seconds

    def _made(self, site: int) -> Any:
        link = Link(site)
        self.links.append(link)

        def opened(login: Any) -> None:
            link.login = login
            if self.fails is not None:
                raise self.fails

        link.open = opened  # type: ignore[attr-defined]
        return link

    def read(self, node: int | None = None) -> Any:
        return self.caller.ask(READ, MetadataRequest(), node=node)

    def change(self) -> Any:
        return self.caller.ask(CHANGE, CreateTopicsRequest())

    @property
    def is_free(self) -> bool:
        """Whether another request would get its turn."""
        free = self.turns.take("other", 0)
        if free:
            self.turns.leave("other")
        return free


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_reads_share_a_connection_until_it_was_idle_for_too_long(scene: Scene) -> None:
    first = scene.read()
    scene.now_s += IDLE_S
    assert scene.read() is first
    scene.now_s += IDLE_S + 1
    assert scene.read() is not first
    assert [link.closed for link in scene.links] == [1, 0]


def test_a_change_is_never_sent_on_a_connection_that_may_have_ended(scene: Scene) -> None:
    """It could not be repeated: perhaps it was carried out."""
    first = scene.read()
    second = scene.change()
    assert second is not first
    second.fails = first.fails = LinkBroken("gone")
    assert scene.change() not in (first, second)
    assert [link.requests for link in scene.links] == [[READ], [CHANGE], [CHANGE]]


def test_a_read_whose_connection_has_ended_is_repeated_on_a_new_one(scene: Scene) -> None:
    first = scene.read()
    first.fails = LinkBroken("gone")
    second = scene.read()
    assert second is not first
    assert (first.closed, second.closed) == (1, 0)
    assert scene.read() is second


def test_nodes_have_connections_of_their_own(scene: Scene) -> None:
    first, second = scene.read(5), scene.read(6)
    assert (first.site, second.site) == (0, 1)
    assert scene.read(5) is first
    assert scene.read(6) is second
    assert scene.read() is first
    assert scene.read(99) is first, "a node that is none of these is asked at the first site"


def test_a_bounded_number_of_connections_is_kept(scene: Scene) -> None:
    for _ in range(IDLE_LINKS + 1):
        scene.change()
    assert [link.closed for link in scene.links] == [0] * IDLE_LINKS + [1]
    scene.caller.close()
    assert [link.closed for link in scene.links] == [1] * (IDLE_LINKS + 1)
    scene.read()
    assert len(scene.links) == IDLE_LINKS + 2, "a closed connection is not used again"


@pytest.mark.parametrize("ask", [Scene.read, Scene.change])
def test_a_used_up_quota_delays_the_next_request_and_not_its_connection(
    scene: Scene, ask: Callable[[Scene], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker reads nothing more from the connection."""
    monkeypatch.setattr(Link, "throttle_time_ms", 3000)
    ask(scene)
    assert (scene.slept, scene.links[0].closed) == ([], 1)
    monkeypatch.setattr(Link, "throttle_time_ms", 0)
    scene.now_s += 1
    scene.read()
    scene.read()
    assert scene.slept == [2.0]
    assert scene.was_free == [True], "a request that waits for its quota keeps nobody's turn"
    assert [link.closed for link in scene.links] == [1, 0]


def test_a_request_in_a_hurry_leaves_the_delay_to_the_next_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link, "throttle_time_ms", 3000)
    with module.no_waits():
        for _ in range(2):
            scene.change()
            scene.read()
        monkeypatch.setattr(Link, "throttle_time_ms", 0)
        scene.read()
    assert scene.slept == []
    assert [len(link.requests) for link in scene.links] == [1] * 5
    scene.read()
    assert scene.slept == [3.0]


def test_a_request_waits_for_a_quota_no_longer_than_for_an_answer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link, "throttle_time_ms", 10**9)
    scene.read()
    scene.read()
    assert scene.slept == [DEADLINE_S]


def test_a_connection_for_a_change_is_ready_before_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker lets its first request wait: that is waited for before, without a turn."""
    monkeypatch.setattr(Link, "delay_ms", 700)
    with scene.caller.reserved(6), module.no_waits():
        (ready,) = scene.links
        with pytest.raises(QuotaUsedUp):
            scene.read(6)
        monkeypatch.setattr(Link, "delay_ms", 0)
        assert scene.caller.ask(CHANGE, CreateTopicsRequest(), node=5) is not ready, "another site"
        assert scene.caller.ask(CHANGE, CreateTopicsRequest(), node=6) is ready
        assert scene.caller.ask(CHANGE, CreateTopicsRequest(), node=6) is not ready, "used once"
    assert (scene.slept, scene.was_free) == ([0.7], [True])
    assert scene.is_free


def test_a_connection_for_a_change_that_would_wait_for_too_long_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change would wait, too, with what other users wait for."""
    monkeypatch.setattr(Link, "delay_ms", int(DEADLINE_S * 1000) + 1)
    with pytest.raises(QuotaUsedUp), scene.caller.reserved(None):
        pytest.fail("it is ready")
    assert (scene.slept, scene.links[0].closed) == ([], 1)
    monkeypatch.setattr(Link, "delay_ms", int(DEADLINE_S * 1000))
    with scene.caller.reserved(None):
        pass
    assert scene.slept == [DEADLINE_S]


def test_a_connection_that_no_change_has_used_is_kept(scene: Scene) -> None:
    with scene.caller.reserved(None):
        pass
    assert scene.read() is scene.links[0]


def test_a_request_in_a_hurry_waits_for_no_turn(scene: Scene) -> None:
    assert scene.turns.take("other", 0)
    with module.no_waits():
        scene.read()
    scene.turns.leave("other")
    assert scene.is_free


@pytest.mark.parametrize("error", [LinkBroken("away"), ScramFailed("wrong")])
def test_a_broker_that_cannot_be_reached_is_unavailable(scene: Scene, error: Exception) -> None:
    scene.fails = error
    with pytest.raises(NotServed, match="cannot be asked") as refused:
        scene.read()
    assert refused.value.status == 503
    assert scene.links[0].closed == (1 if isinstance(error, ScramFailed) else 0)
    assert scene.is_free


@pytest.mark.parametrize("error", [LoginRefused("no"), CredentialChanged("changed")])
def test_a_login_that_is_no_longer_accepted_is_repeated_by_the_user(scene: Scene, error: Exception) -> None:
    scene.fails = error
    with pytest.raises(NotServed) as refused:
        scene.read()
    assert (refused.value.status, refused.value.code) == (401, "login")
    assert scene.caller.is_outdated is isinstance(error, CredentialChanged), "a refusal may be temporary"
    assert scene.is_free


@pytest.mark.parametrize(
    ("error", "raised"), [(LinkBroken("late"), Refusal), (Refusal, Refusal), (ValueError("odd"), ValueError)]
)
def test_a_connection_on_which_a_request_failed_is_closed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Any, raised: type[Exception]
) -> None:
    failure = unavailable("old") if error is Refusal else error
    made: Callable[[int], Any] = scene._made

    def failing(site: int) -> Any:
        link = made(site)
        link.fails = failure
        return link

    monkeypatch.setattr(scene, "_made", failing)
    with pytest.raises(raised) as ended:
        scene.change()
    assert not isinstance(ended.value, NotServed), "it was sent"
    assert scene.links[0].closed == 1
    assert scene.is_free
    monkeypatch.undo()


def test_there_is_a_bounded_number_of_requests_at_a_time(scene: Scene) -> None:
    assert scene.turns.take("other", 0)
    with pytest.raises(NotServed, match="too many requests"):
        scene.read()
    assert scene.links == []
    scene.turns.leave("other")
    scene.read()
    assert scene.is_free


def test_slow_requests_of_a_user_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is limited by user, over all sessions and addresses of the user."""
    login: Any = type("Login", (), {"user": "ann"})()
    scene = Scene(monkeypatch, login)
    scene.caller._turns = turns = Turns()
    assert all(turns.take("ann", 0) for _ in range(OF_A_USER))
    with pytest.raises(Refusal, match="too many requests"):
        scene.read()
    login.user = "bob"
    scene.read()
    login.user = "ann"
    turns.leave("ann")
    scene.read()


def test_a_login_is_tried_on_a_connection_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    login: Any = type("Login", (), {"user": "ann"})()
    scene = Scene(monkeypatch, login)
    assert scene.caller.user == "ann"
    scene.caller.log_in()
    assert scene.read() is scene.links[0]
    assert scene.links[0].login is login
    scene.fails = LoginRefused("no")
    with pytest.raises(LoginRefused):
        scene.caller.log_in()


def test_an_anonymous_caller_has_no_user(scene: Scene) -> None:
    assert scene.caller.user is None
    assert not scene.caller.is_outdated


def test_a_caller_is_outdated_when_its_login_is(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[bool] = []
    login: Any = type("Login", (), {"user": "ann", "has_changed": lambda _: bool(changed)})()
    scene = Scene(monkeypatch, login)
    assert not scene.caller.is_outdated
    changed.append(True)
    assert scene.caller.is_outdated
