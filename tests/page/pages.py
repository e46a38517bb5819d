"""Records without load points, and the text of the pages that tests make."""

import re

from reports.record.schema import (
    Record,
)
from tests import samples as records


def unmeasured(**changes: object) -> Record:
    """A case without load points, so that nothing is drawn."""
    return records.record(loads=(), **changes)


def words(html: str) -> str:
    """The text of a page in one line, without pictures."""
    bare = re.sub(r"<(style|script)>.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", bare).split())
