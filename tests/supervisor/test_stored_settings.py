"""How many processes a start has is decided by the file and by what AlterConfigs has set in earlier
runs."""

from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.control.metadata.config_resource import BROKER
from kbroker.control.store.change import Change
from kbroker.control.store.store import FILE_NAME, Store
from kbroker.supervisor.stored_settings import with_stored_settings


def config(folder: Path, **settings: str) -> BrokerConfig:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig({"log.dirs": str(folder), "node.id": "7", **names})


def store(folder: Path, configs: dict[str, dict[str, str | None]]) -> None:
    made = Store(folder / FILE_NAME)
    made.apply(Change(configs={(BROKER, name): values for name, values in configs.items()}))
    made.close()


def test_the_brokers_own_setting_goes_above_the_clusters_and_both_above_the_file(tmp_path: Path) -> None:
    store(
        tmp_path,
        {
            "": {"num.io.threads": "3", "num.network.threads": "4"},
            "7": {"num.network.threads": "5"},
            "8": {"num.io.threads": "6"},
        },
    )
    found = with_stored_settings(config(tmp_path, num_io_threads="1", num_network_threads="1"))
    assert found.get_int("num.io.threads") == 3
    assert found.get_int("num.network.threads") == 5


def test_without_a_store_or_with_a_damaged_one_the_file_decides(tmp_path: Path) -> None:
    given = config(tmp_path, num_io_threads="2")
    assert with_stored_settings(given).get_int("num.io.threads") == 2
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
    assert with_stored_settings(given).get_int("num.io.threads") == 2
    assert (tmp_path / FILE_NAME).read_bytes().startswith(b"no database")
