"""Errors a reader can act on: what was wrong, where, and what to do about it."""

from tritonproof.base.sanitize import cut, visible

_MAX_CHARS = 10_000
"""The most characters of each part of an error: the last forty lines of a log have some 4,000."""


class ProofError(Exception):
    """An error that a reader can act on. By itself it means that something is broken, a build, a server or a
    measurement: the case fails, and the run goes on. Each kind below says what it means instead. `what` says
    in a sentence what is wrong, `where` names the file, key, output or case, `fix` what to do."""

    def __init__(self, what: str, *, where: object = None, fix: str | None = None) -> None:
        self.what, self.fix = _shown(what), _shown(fix or "")
        self.where = "" if where is None else _shown(str(where))
        lines = [self.what, self.where and f"  where: {self.where}", self.fix and f"  fix:  {self.fix}"]
        super().__init__("\n".join(filter(None, lines)))


class AccuracyError(ProofError):
    """The converted or the served model is not right: the case fails, and shows no speed."""


class SpeedError(ProofError):
    """The model is right, but slower, or far larger or slower to load, than it may be: the case fails."""


class InputError(ProofError):
    """The user's input cannot be used: an option, a checkpoint, a data set. The tests that need it fail."""


class SetupError(InputError):
    """What every case needs is missing: a program, a library, a server that answers. The run stops."""


class NotAvailableError(ProofError):
    """This machine or server lacks what a case needs. The case is skipped, with the reason."""


def _shown(text: str) -> str:
    """Foreign text in an error, made safe for a terminal, a log and a record."""
    return cut(visible(text), _MAX_CHARS)
