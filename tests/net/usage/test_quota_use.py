"""What is reported of quotas is bounded, whatever clients call themselves."""

from kbroker.config.client_quotas import Bound
from kbroker.ipc.client_messages import Throttled
from kbroker.net.usage.quota_use import MAX_CLIENTS, MAX_TEXT, QuotaUse


def test_a_report_is_bounded() -> None:
    use = QuotaUse()
    for number in range(MAX_CLIENTS + 10):
        use.client_seen("u", str(number))
        use.throttled("request_percentage", Bound(1.0, "u", str(number)), 5)
    use.throttled("request_percentage", Bound(1.0, "u", "0"), 6)
    throttled, clients = use.take()
    assert (len(throttled), len(clients)) == (MAX_CLIENTS, MAX_CLIENTS)
    assert throttled[0] == Throttled("request_percentage", "u", "0", 2, 11)
    assert use.take() == ((), ())


def test_names_as_long_as_a_report_allows_are_in_it() -> None:
    use = QuotaUse()
    name = "c" * MAX_TEXT
    use.client_seen("u", name)
    use.throttled("request_percentage", Bound(1.0, "u", name), 5)
    assert use.take() == ((Throttled("request_percentage", "u", name, 1, 5),), (("u", name),))


def test_names_too_long_for_a_report_are_left_out() -> None:
    use = QuotaUse()
    use.client_seen("u", "c" * (MAX_TEXT + 1))
    use.throttled("request_percentage", Bound(1.0, "u" * (MAX_TEXT + 1), ""), 5)
    assert use.take() == ((), ())
