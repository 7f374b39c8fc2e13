"""The metrics of a running kbroker."""

import re
import urllib.error
import urllib.request
from collections.abc import Mapping

from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from tests.peer.kbroker_node import KBroker


class Scrape:
    """A parsed answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Family] = {}
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert name not in self.families, f"{name} comes twice"
            self.families[name] = family

    def value(self, name: str, /, **labels: str) -> float:
        """Value of one sample; KeyError when there is no such sample."""
        family = self.families[name]
        return self.sample(family.name, family.name if family.type != "counter" else name, labels)

    def sample(self, family: str, name: str, labels: Mapping[str, str]) -> float:
        """Value of a sample by its own name, such as a histogram's _count."""
        for each in self._family(family).samples:
            if each.name == name and each.labels == dict(labels):
                return float(each.value)
        raise KeyError(f"{name}{dict(labels)}")

    def labels(self, name: str) -> list[dict[str, str]]:
        """Label sets of the samples of a family."""
        return [dict(sample.labels) for sample in self.families[name].samples]

    def _family(self, name: str) -> Family:
        return self.families.get(name) or self.families[f"{name}_total"]


def base(node: KBroker) -> str:
    """URL of the http process, from the broker's own log line."""
    found = re.findall(r"kbroker ready.*metrics=(\S+)/metrics", node.log_file.read_text())
    return str(found[-1])


def get(url: str, accept: str = "*/*") -> tuple[int, str, str]:
    """(status, content type, body)."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def scrape(node: KBroker) -> Scrape:
    """The numbers as they are now."""
    return Scrape(get(base(node) + "/metrics")[2])
