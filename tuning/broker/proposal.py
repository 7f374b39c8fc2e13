"""A proposed value of one broker setting for this host."""

from dataclasses import dataclass

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import render
from tuning.finding import Finding, Means, Remedy, Severity


@dataclass(frozen=True, slots=True)
class Proposal:
    """key: of the broker's settings. value: as written in a properties file. why: a sentence with
    the figures it comes from; source: where those are from."""

    key: str
    value: str
    why: str
    source: str
    severity: Severity = Severity.ADVICE

    def finding(self, config: BrokerConfig) -> Finding:
        """The proposal as a finding of `kbroker tune check`."""
        now = render(config.value(self.key)) or ""
        old = config.static.get(self.key, "")
        remedy = Remedy(Means.PROPERTY, self.key, self.value, old)
        return Finding(self.key, self.severity, now or "unset", self.value, self.why, self.source, remedy)


def differs(config: BrokerConfig, proposal: Proposal) -> bool:
    """Whether the setting has another value now."""
    return render(config.value(proposal.key)) != proposal.value
