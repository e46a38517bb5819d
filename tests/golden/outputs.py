"""What the commands give for the committed records: `python -m tests.golden.outputs` writes it into this folder anew."""

import contextlib
import html.parser
import io
import tempfile
from pathlib import Path

from reports.__main__ import main

FOLDER = Path(__file__).parent
_RESULTS = FOLDER.parents[1] / "reports"
_RECORDS = ("readme", "h200")
_PAIR = tuple(
    str(_RESULTS / "readme" / "cpu" / f"cpu-resnet50-micro-onnx-{one}.json") for one in ("fp32", "int8")
)
_COMMANDS = {
    "tables.md": ("tables",),
    "published.md": ("published", "--other-formats"),
    "published.csv": ("published", "--csv"),
    "points.csv": ("csv",),
    "bencher.json": ("export", "--format", "bencher"),
    "bigger.json": ("export", "--format", "customBiggerIsBetter"),
    "smaller.json": ("export", "--format", "customSmallerIsBetter"),
}
_UNSEEN = ("script", "style", "svg", "title")


def outputs() -> dict[str, str]:
    """Every output by the name of its file."""
    found = {"compare.md": _said("compare", *_PAIR, "--format", "markdown")}
    for records in _RECORDS:
        results = "--results", str(_RESULTS / records)
        for name, command in _COMMANDS.items():
            found[f"{records}-{name}"] = _said(*command, *results)
        found[f"{records}-page.txt"] = _page(*results)
    return found


def _said(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        status = main(arguments)
    return f"{said.getvalue().replace(str(_RESULTS), 'reports')}exit status {status}\n"


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

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser gives them
        self.unseen += tag in _UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in _UNSEEN

    def handle_data(self, data: str) -> None:
        if not self.unseen and data.strip():
            self.lines.append(" ".join(data.split()))


if __name__ == "__main__":
    for name, text in outputs().items():
        (FOLDER / name).write_text(text)
