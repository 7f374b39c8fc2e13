"""The check: knobs of the host, settings and proposals, signs of a running broker."""

from tuning.broker import running, settings
from tuning.broker.rules import propose
from tuning.finding import Finding, Severity, sorted_findings
from tuning.knobs import registry
from tuning.situation import Situation


def check(situation: Situation) -> list[Finding]:
    """All findings, the worst first."""
    proposals = [proposal.finding(situation.config) for proposal in propose(situation)]
    return sorted_findings(
        [
            *registry.findings(situation),
            *settings.findings(situation),
            *proposals,
            *running.findings(situation),
        ]
    )


def exit_code(findings: list[Finding]) -> int:
    """1 if any finding is serious."""
    return int(any(finding.severity is Severity.SERIOUS for finding in findings))
