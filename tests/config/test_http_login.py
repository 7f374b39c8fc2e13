"""Commands send the login of a URL or of the variable, and show neither."""

import pytest

from kbroker.config.http_login import LOGIN, login_header, without_login

ANN = {"Authorization": "Basic YW5uOnNAY3JldA=="}  # ann:s@cret


def test_the_login_of_a_url_precedes_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN, "bob:other")
    assert login_header("http://ann:s%40cret@host:9404/") == ANN
    monkeypatch.setenv(LOGIN, "ann:s@cret")
    assert login_header("http://host:9404/") == ANN


def test_no_login_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOGIN, raising=False)
    assert login_header("http://host:9404/") == {}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://ann:secret@host:9404/metrics", "http://host:9404/metrics"),
        ("https://ann:a/b@host/", "https://host/"),
        ("ann:secret@host", "host"),
        ("host:9404", "host:9404"),
    ],
)
def test_a_url_is_shown_without_its_login(url: str, shown: str) -> None:
    assert without_login(url) == shown
