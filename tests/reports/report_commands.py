"""The commands that read records."""

from collections.abc import Mapping
from pathlib import Path

PRINTING: Mapping[str, tuple[str, ...]] = {
    "tables.md": ("tables",),
    "published.md": ("published",),
    "published.csv": ("published", "--format", "csv"),
    "points.csv": ("csv",),
    "bencher.json": ("export", "--format", "bencher"),
    "bigger.json": ("export", "--format", "customBiggerIsBetter"),
    "smaller.json": ("export", "--format", "customSmallerIsBetter"),
}
"""The commands that print what they show of the records of a folder, by a name of a file for it."""
READING: Mapping[str, tuple[str, ...]] = {
    **{name: (*words, "--results", "{results}") for name, words in PRINTING.items()},
    "html": ("html", "--results", "{results}", "--output", "{out}/page.html"),
    "plots": ("plots", "--results", "{results}", "--output", "{out}/plots"),
    "readme": ("readme", "{out}/page.md", "--results", "{results}"),
    "compare": ("compare", "{results}", "{results}"),
    "merge": ("merge", "{results}", "--output", "{out}/merged"),
    "trend": ("trend", "--add", "{results}", "--history", "{out}/history"),
}
"""Every command that reads records."""


def words_of(command: str, results: Path, out: Path) -> list[str]:
    """The words of one of READING, which writes into the folder `out`."""
    (out / "page.md").write_text("<!-- tritonproof:summary -->\n<!-- /tritonproof:summary -->\n")
    return [word.format(results=results, out=out) for word in READING[command]]
