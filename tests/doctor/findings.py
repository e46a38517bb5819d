"""What tests of the doctor ask of its findings."""

from fixtures.doctor.finding import Finding


def states(*findings: Finding) -> list[str]:
    """The state of each finding; one that is not ok has a cure."""
    assert all(bool(finding.cure) == (finding.state != "ok") for finding in findings)
    return [finding.state for finding in findings]
