from tuning.bench import tls


def test_a_gb_over_tls_costs_something_and_less_than_a_minute() -> None:
    assert 0.01 < tls.measure_tls(0.05) < 60


def test_a_record_of_one_side_is_read_by_the_other() -> None:
    sender, receiver = tls._connected()
    sender.write(b"a record")
    assert receiver.read(100) == b"a record"
    assert receiver.cipher() == sender.cipher()
