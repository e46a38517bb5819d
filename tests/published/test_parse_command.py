"""The command that turns the published READMEs into files."""

import csv
import os
from pathlib import Path

import pytest

from reports import published
from reports.published import parse
from tests.published.readmes import COMPONENTS_MS, ONE_LINE, PERCENTILES_MS, SPACES


def test_the_command_writes_a_file_per_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.txt").write_text(SPACES)
    (tmp_path / "two.txt").write_text(ONE_LINE)
    assert parse.main([str(tmp_path), "--output", str(tmp_path)]) == 0
    assert "nnunet.csv: 1 tables, 2 rows" in capsys.readouterr().out
    read = published.load(tmp_path)
    assert list(read["model"]) == ["nnunet", "nnunet", "resnet50", "resnet50"]
    assert list(read["throughput_per_s"]) == [26.1, 26.2, 491.5, 811.8]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"one.txt": SPACES.encode(), "two.txt": SPACES.encode()}, "two.txt:1: a second README of resnet50"),
        ({"one.txt": b"caf\xe9\n"}, "one.txt:1: not UTF-8 text"),
        ({"one.txt": SPACES.encode(), "two.txt": b"# Other\n"}, "two.txt:1: not one of the READMEs"),
    ],
)
def test_the_command_writes_nothing_after_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert parse.main([str(tmp_path), "--output", str(tmp_path)]) == 4
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("*.csv"))


def test_a_readme_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse.main(["nowhere/README.md"]) == 4
    assert "nowhere/README.md: No such file or directory" in capsys.readouterr().err


needs_seeds = pytest.mark.skipif(
    "TRITONPROOF_SEEDS" not in os.environ,
    reason="needs the published READMEs: set TRITONPROOF_SEEDS to their folder",
)


@needs_seeds
def test_the_readmes_give_the_files_again() -> None:
    parsed = parse.read([Path(os.environ["TRITONPROOF_SEEDS"])])
    assert {model: parse.as_csv(rows) for model, rows in parsed.items()} == {
        path.stem: path.read_text() for path in published.FOLDER.glob("*.csv")
    }


@needs_seeds
def test_the_numbers_of_every_row_stand_in_a_readme_in_their_order() -> None:
    """Without the parser: the text with its rules and bars taken out holds each row's numbers, once."""
    folder = Path(os.environ["TRITONPROOF_SEEDS"])
    texts = dict.fromkeys(("bert-dist4l", "fastpitch", "nnunet", "resnet50", "resnet50-tf"), "")
    for path in folder.glob("*.txt"):
        text = path.read_text()
        titles = (document.model for document in parse.DOCUMENTS if document.title in text)
        texts[next(titles)] = " ".join(text.replace("|", " ").split())
    numbers = ["throughput_per_s", *COMPONENTS_MS, *PERCENTILES_MS, "latency_avg_ms"]
    for path in published.FOLDER.glob("*.csv"):
        for row in csv.DictReader(path.read_text().splitlines()):
            point = row["batch"] if row["scenario"] == "offline" else row["concurrency"]
            if row["metric"]:
                point = f"{row['batch']} {row['concurrency']}"
            published_row = " ".join([point, *(row[name] for name in numbers if row[name])])
            assert texts[path.stem].count(f" {published_row} ") == 1, published_row
