"""The output of the commands for the committed records: `python -m tests.golden.outputs` writes it anew."""

import contextlib
import html.parser
import io
import os
import tempfile
from pathlib import Path
from unittest import mock

import pytest

from reports import run
from reports.__main__ import main
from tests.text.outputs import Reporter

FOLDER = Path(__file__).parent
_RESULTS = FOLDER.parents[1] / "reports"
_RECORDS = ("readme", "h200")
_PAIR = tuple(
    f"reports/readme/cpu/cpu-resnet50-micro-onnx-{precision}.json" for precision in ("fp32", "int8")
)
_COMMANDS = {
    "tables.md": ("tables",),
    "published.md": ("published",),
    "published.csv": ("published", "--format", "csv"),
    "points.csv": ("csv",),
    "bencher.json": ("export", "--format", "bencher"),
    "bigger.json": ("export", "--format", "customBiggerIsBetter"),
    "smaller.json": ("export", "--format", "customSmallerIsBetter"),
}
_UNSEEN = ("script", "style", "svg", "title")


def outputs() -> dict[str, str]:
    """Every output by the name of its file."""
    # By relative paths, since a terminal's line breaks depend on a path's length.
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(_RESULTS.parent)
        patched.setenv("COLUMNS", "100")
        texts = {"compare.md": _said("compare", *_PAIR, "--format", "markdown")}
        texts["compare-terminal.txt"] = _said("compare", *_PAIR, "--format", "terminal")
    for records in _RECORDS:
        for columns in ("80", "300"):
            texts[f"{records}-summary-{columns}.txt"] = _summary(_RESULTS / records, columns)
        results = "--results", str(_RESULTS / records)
        for name, command in _COMMANDS.items():
            texts[f"{records}-{name}"] = _said(*command, *results)
        texts[f"{records}-page.txt"] = _page(*results)
    return texts


def _said(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        status = main(arguments)
    return f"{output.getvalue().replace(str(_RESULTS), 'reports')}exit status {status}\n"


def _summary(results: Path, columns: str) -> str:
    """The summary of a run that wrote all these records, on a terminal so many columns wide."""
    records = [str(path.relative_to(results)) for path in sorted(results.glob("*/*.json"))]
    reporter = Reporter(results, *records, isatty=True)
    with mock.patch.dict(os.environ, {"COLUMNS": columns}):
        run.show_summary(reporter, *run.written_records(reporter))
    return "\n".join(line for line in reporter.lines if not line.startswith("records: ")) + "\n"


def _page(*results: str) -> str:
    """The text of the page that a reader sees, without its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        _said("html", *results, "--output", str(path))
        text = _Text()
        text.feed(path.read_text())
    return "\n".join(text.lines) + "\n"


class _Text(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.unseen = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser passes them
        self.unseen += tag in _UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in _UNSEEN

    def handle_data(self, data: str) -> None:
        if not self.unseen and data.strip():
            self.lines.append(" ".join(data.split()))


if __name__ == "__main__":
    for name, text in outputs().items():
        (FOLDER / name).write_text(text)
