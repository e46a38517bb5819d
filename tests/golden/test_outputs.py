"""Outputs of the commands equal the golden files."""

import pytest

from tests.golden.outputs import FOLDER, outputs


@pytest.fixture(scope="module")
def given() -> dict[str, str]:
    return outputs()


def test_outputs_match_golden_files(given: dict[str, str]) -> None:
    golden = {
        path.name: path.read_text()
        for path in FOLDER.iterdir()
        if path.suffix in (".md", ".csv", ".json", ".txt")
    }
    assert golden.keys() == given.keys()
    for name, text in given.items():
        assert text == golden[name], f"{name}: run `python -m tests.golden.outputs`; say why in the commit"
