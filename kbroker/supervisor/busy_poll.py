"""Whether the cores suffice for processes that poll (kbroker.busy.poll.*). Runs in: acceptor, if
one of these settings is not 0."""

from kbroker.config.broker import BrokerConfig
from kbroker.config.processes import cores_to_poll
from kbroker.supervisor.roles import network_count, worker_count


def too_few_cores(config: BrokerConfig, cores: int) -> str:
    """A warning; empty if the cores suffice."""
    networks, workers = network_count(config), worker_count(config)
    needed = cores_to_poll(networks, workers)
    if cores >= needed:
        return ""
    polling = " and ".join(
        f"{name}={config.get_int(name)}"
        for name in ("kbroker.busy.poll.network.us", "kbroker.busy.poll.io.us")
        if config.get_int(name)
    )
    return (
        f"{polling}: a process that polls takes a core, so {networks} network processes and {workers} IO workers "
        f"need {needed} cores, and there are {cores}; acks may take longer than without it"
    )
