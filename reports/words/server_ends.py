"""How servers ended by themselves while they served a case, in words: what crashed is said wherever its figures are."""

from reports.record.schema import Record, ServerEnd


def end_text(end: ServerEnd) -> str:
    """A sentence on one end: how, and in which stage."""
    return f"Triton {end.how} in the stage {end.stage}."


def ends_text(record: Record) -> str:
    """A sentence on each end of a case's servers; empty where none ended."""
    return " ".join(map(end_text, record.server_ends))
