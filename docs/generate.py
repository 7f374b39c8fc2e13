"""Writes every generated page and file, or with --check lists those that are stale (exit code 1).

A row names the file and the function that gives its whole text, as in
`"docs/config.md": "kbroker.config.page:render"`.
"""

import importlib
import sys
from pathlib import Path

from docs.wrap import wrapped

ROOT = Path(__file__).parents[1]

GENERATED: dict[str, str] = {
    "docs/adr/index.md": "docs.decisions:page",
    "docs/architecture.svg": "docs.architecture_picture:picture",
    "docs/bars.svg": "docs.bars:picture",
    "docs/apis.md": "kbroker.api.docs:page",
    "docs/cli.md": "kbroker.cli.docs:page",
    "docs/config.md": "kbroker.config.docs:page",
    "docs/knobs.md": "tuning.docs:page",
    "docs/metrics.md": "kbroker.metrics.docs:page",
    "docs/mutants.md": "tests.mutants.page:page",
    "docs/shared-memory.md": "docs.shared_memory:page",
    "kbroker/kernels/codes.py": "kbroker.protocol.generate.kernel_codes:page",
    "tuning/dashboards/alerts.yml": "tuning.dashboards.alerts:page",
    "tuning/dashboards/recording.yml": "tuning.dashboards.recording:page",
    "tuning/dashboards/kbroker-groups.json": "tuning.dashboards.dashboard:groups",
    "tuning/dashboards/kbroker-logs-and-page-cache.json": "tuning.dashboards.dashboard:logs",
    "tuning/dashboards/kbroker-network.json": "tuning.dashboards.dashboard:network",
    "tuning/dashboards/kbroker-overview.json": "tuning.dashboards.dashboard:overview",
    "tuning/dashboards/kbroker-processes-and-host.json": "tuning.dashboards.dashboard:processes",
    "tuning/dashboards/kbroker-requests.json": "tuning.dashboards.dashboard:requests",
    "tuning/dashboards/kbroker-topics.json": "tuning.dashboards.dashboard:topics",
    "tuning/dashboards/kbroker.json": "tuning.dashboards.dashboard:page",
}


def text(function: str) -> str:
    """What the named `module:function` gives."""
    module, _, name = function.partition(":")
    return str(getattr(importlib.import_module(module), name)())


def expected(path: str) -> str:
    """What a generated file must hold; the prose of pages is wrapped."""
    given = text(GENERATED[path])
    return wrapped(given) if path.endswith(".md") else given


def stale() -> list[str]:
    """The generated files whose content is not what their function gives now."""
    return [
        path
        for path in GENERATED
        if not (ROOT / path).exists() or (ROOT / path).read_text() != expected(path)
    ]


def main(arguments: list[str]) -> int:
    changed = stale()
    if "--check" in arguments:
        for path in changed:
            print(f"{path} is stale: make docs writes it")
        return 1 if changed else 0
    for path in changed:
        (ROOT / path).write_text(expected(path))
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
