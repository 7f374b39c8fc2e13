"""A broker whose kernels are linked serves where no process may run memory that it has written, as
under the unit of `kbroker systemd`."""

import platform
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kbroker.kernels import image
from kbroker.kernels.linking.mapped_image import MappedImage
from tests.compat import no_executable_memory
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import base, get

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="images of kernels are for x86-64"),
]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Confined(KBroker):
    """kbroker that must not make memory executable."""

    def _command(self) -> list[str]:
        return [sys.executable, no_executable_memory.__file__, *super()._command()]


def test_a_broker_serves_without_memory_that_is_written_and_run(tmp_path: Path) -> None:
    assert isinstance(image.loaded(image.path()), MappedImage), "`make kernels` links them"
    broker = Confined(
        tmp_path, {"kbroker.http.listen": "127.0.0.1:0", "kbroker.schema.registry.listen": "127.0.0.1:0"}
    )
    bootstrap = broker.start()
    try:
        for codec in CODECS:
            producer = Producer(
                {"bootstrap.servers": bootstrap, "compression.type": codec, "transactional.id": codec}
            )
            producer.init_transactions(120)
            producer.begin_transaction()
            for number in range(100):
                producer.produce("confined", b"%d" % number * 100)
            producer.commit_transaction(30)
        settings = {"group.id": "g", "auto.offset.reset": "earliest", "group.protocol": "consumer"}
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        consumer.subscribe(["confined"])
        read = 0
        while read < 100 * len(CODECS):
            (message,) = consumer.consume(1, 60)
            assert message.error() is None
            read += 1
        consumer.close()
        status, _, text = get(f"{base(broker)}/metrics")
        assert status == 200
        assert "kbroker_log_writes_total" in text
    finally:
        broker.stop()
    assert not [word for word in ("Traceback", "died", "not compiled") if word in broker.logs(last=10**8)]
