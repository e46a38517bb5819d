"""Outputs of the commands equal the golden files."""

from tests.golden.outputs import FOLDER, outputs


def test_outputs_match_golden_files() -> None:
    files = [path for path in FOLDER.iterdir() if path.suffix in (".md", ".csv", ".json", ".txt")]
    golden, given = {path.name: path.read_text() for path in files}, outputs()
    assert golden.keys() == given.keys()
    for name, text in given.items():
        assert text == golden[name], f"{name}: run `python -m tests.golden.outputs`; say why in the commit"
