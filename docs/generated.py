"""The generated pages and files, each with the function that returns its whole text, as in
`"docs/config.md": "kbroker.config.page:render"`."""

from pathlib import Path

ROOT = Path(__file__).parents[1]

GENERATED: dict[str, str] = {
    "docs/adr/index.md": "docs.decisions:page",
    "docs/architecture.svg": "docs.architecture_picture:picture",
    "docs/bars.svg": "docs.bars:picture",
    "docs/alerts.md": "tuning.dashboards.alerts_page:page",
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
    "tuning/dashboards/kbroker-clients.json": "tuning.dashboards.dashboard:clients",
    "tuning/dashboards/kbroker-groups.json": "tuning.dashboards.dashboard:groups",
    "tuning/dashboards/kbroker-logs-and-page-cache.json": "tuning.dashboards.dashboard:logs",
    "tuning/dashboards/kbroker-network.json": "tuning.dashboards.dashboard:network",
    "tuning/dashboards/kbroker-overview.json": "tuning.dashboards.dashboard:overview",
    "tuning/dashboards/kbroker-processes-and-host.json": "tuning.dashboards.dashboard:processes",
    "tuning/dashboards/kbroker-requests.json": "tuning.dashboards.dashboard:requests",
    "tuning/dashboards/kbroker-topics.json": "tuning.dashboards.dashboard:topics",
    "tuning/dashboards/kbroker.json": "tuning.dashboards.dashboard:page",
}
