"""One way of naming a parser for the tests of hostile files: a right file, what may become of it, and who reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fixtures.errors import ProofError
from tests.fuzz.damage import Damage


@dataclass(frozen=True)
class Parser:
    """Reads a file that somebody else may have written."""

    name: str
    """What the file is called in the ids of tests."""
    file: str
    """The path of the file that is damaged, from the folder that `write` fills."""
    write: Callable[[Path], object]
    """Fills a folder with the file and all that lies beside it, all of it right."""
    damage: Damage
    """What may become of the file."""
    read: Callable[[Path], object]
    """Reads the file at its path, and uses what it has read as far as its values are used without a server."""
    refusals: tuple[type[Exception], ...] = (ProofError,)
    """The types of errors by which the file is refused."""
    names: str = ""
    """What a refusal names; empty for the name of the file."""
    found: tuple[bytes, ...] = ()
    """Contents that were not refused as they should have been, tried each time."""
    campaign: bool = False
    """Whether it is tried in the campaign alone, as its library takes seconds to import."""

    def __str__(self) -> str:
        return self.name
