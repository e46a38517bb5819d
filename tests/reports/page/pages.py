"""Makes pages of records, and reads their text."""

import re
from pathlib import Path

from tests import sample_records
from tritonproof.record import Record, record_files
from tritonproof.reports.page import page, section_of
from tritonproof.reports.publishable import publishable


def page_of(results: Path, *records: Record) -> str:
    sections = [section_of(publishable(one), record_files.record_path(one.case, results)) for one in records]
    return page(sections)


def unmeasured(**changes: object) -> Record:
    """A case without load points, so that nothing is drawn."""
    return sample_records.record(points=(), **changes)


def words(html: str) -> str:
    """The text of a page in one line, without pictures."""
    bare = re.sub(r"<(style|script)>.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", bare).split())
