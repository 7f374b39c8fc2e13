"""kbroker.replica.sites: every log dir in exactly one site."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.config.sites import sites_of


def config(sites: str) -> BrokerConfig:
    return BrokerConfig({"log.dirs": "/a,/b,/c", "node.id": "5", "kbroker.replica.sites": sites})


def test_one_site_of_everything_is_the_default() -> None:
    (site,) = sites_of(config(""))
    assert (site.node_id, site.log_dirs) == (5, ("/a", "/b", "/c"))


def test_sites_are_nodes_in_turn() -> None:
    assert [(s.number, s.node_id, s.log_dirs) for s in sites_of(config("/a, /c;/b"))] == [
        (0, 5, ("/a", "/c")),
        (1, 6, ("/b",)),
    ]


@pytest.mark.parametrize("sites", ["/a;/b", "/a;/b;/d", "/a,/b;/b;/c", "/a,/b,/c;", "/a;;/b,/c"])
def test_sites_that_do_not_part_the_log_dirs_are_refused(sites: str) -> None:
    with pytest.raises(ConfigError, match=r"kbroker\.replica\.sites"):
        config(sites)
