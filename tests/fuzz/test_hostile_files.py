"""Files of somebody else's making: each is read, or refused in a sentence that names it; nothing else ever happens."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.fuzz import data_files, model_files, report_files
from tests.fuzz.limits import bounded, check_refusal
from tests.fuzz.parsers import Parser
from tests.fuzz.profiles import tried

PARSERS = (*report_files.PARSERS, *data_files.PARSERS, *model_files.PARSERS)
CAMPAIGN_S = 600
"""Seconds of the campaign, over all parsers."""


@pytest.mark.parametrize("parser", [one for one in PARSERS if not one.campaign], ids=str)
def test_a_file_that_is_not_right_is_refused_in_a_sentence(parser: Parser, tmp_path: Path) -> None:
    try_contents(parser, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("parser", PARSERS, ids=str)
def test_no_file_that_is_not_right_does_anything_else(parser: Parser, tmp_path: Path) -> None:
    try_contents(parser, tmp_path, CAMPAIGN_S / len(PARSERS))


def try_contents(parser: Parser, folder: Path, seconds: float | None = None) -> None:
    """Read the file as it should be, then with contents that it should not have."""
    right = folder / "right"
    right.mkdir()
    parser.write(right)
    parser.read(right / parser.file)
    content = (right / parser.file).read_bytes()

    def check(hostile: bytes) -> None:
        # Some readers remember files by their paths.
        here = folder / hashlib.sha256(hostile).hexdigest()[:16]
        shutil.copytree(right, here, copy_function=os.link)
        path = here / parser.file
        path.unlink()
        path.write_bytes(hostile)
        try:
            with bounded():
                parser.read(path)
        except parser.refusals as error:
            check_refusal(error, parser.names or path.name)
        finally:
            shutil.rmtree(here)

    tried(check, parser.damage(content), parser.found, seconds)
