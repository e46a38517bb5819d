"""Errors a reader can act on: what was wrong, where, and what to do about it."""

import importlib
import pkgutil
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from tritonproof.base.sanitize import cut, excerpt, visible

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


def modules_in(package: str, path: Sequence[str]) -> Iterator[tuple[ModuleType, str]]:
    """The modules and packages in a package, but for those with an underscore before their names, each with
    its file. `path` is the package's own. Raises InputError that names the file and line of an error."""
    for info in pkgutil.iter_modules(path):
        if not info.name.startswith("_"):
            folder = Path(path[0], info.name)
            source = folder / "__init__.py" if info.ispkg else folder.with_suffix(".py")
            try:
                yield importlib.import_module(f"{package}.{info.name}"), str(source)
            except (Exception, SystemExit) as error:
                raise import_error(error, source, [source, *folder.rglob("*.py")]) from error


def import_error(error: BaseException, source: Path, own: Iterable[Path], option: str = "") -> InputError:
    """The error if importing the file `source` raises `error`. It names the line that failed, the innermost
    in the files `own` of the same model, and before it the `option`, such as "--models FILE, "."""
    if isinstance(error, SyntaxError) and error.filename:
        location = f"{error.filename}:{error.lineno}"
    else:
        names = {str(file) for file in own}
        inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
        location = f"{inside[-1].filename}:{inside[-1].lineno}" if inside else str(source)
    # TracebackException gives a text even if str() of the file's own error fails.
    message = str(traceback.TracebackException.from_exception(error))
    what = f"the file cannot be imported: {type(error).__name__}: {excerpt(' '.join(message.split()), 500)}"
    fix = "correct that line; import a package that is not installed here inside a function, or install it"
    return InputError(what, where=f"{option}{location}", fix=fix)


def _shown(text: str) -> str:
    """Foreign text in an error, made safe for a terminal, a log and a record."""
    return cut(visible(text), _MAX_CHARS)
