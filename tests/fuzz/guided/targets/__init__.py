"""All targets by name, in the order in which a search runs them."""

from tests.fuzz.guided.target import Target
from tests.fuzz.guided.targets import (
    batches,
    coordinator_records,
    http_requests,
    logins,
    logs,
    messages,
    requests,
    schemas,
    start_files,
    telemetry,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (
        requests,
        batches,
        logs,
        start_files,
        coordinator_records,
        logins,
        http_requests,
        schemas,
        telemetry,
        messages,
    )
    for target in module.TARGETS
}
