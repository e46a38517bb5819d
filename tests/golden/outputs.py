"""The commands' outputs for committed records and examples: `python -m tests.golden.outputs` writes them."""

import contextlib
import html.parser
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests import sample_records
from tests.helpers import present
from tests.reports.every_output import PRINTING, Reporter
from tritonproof.record import Record, fields, record_files, speed
from tritonproof.record.correctness import Limit, OutputDifference
from tritonproof.record.setup import CaseKey
from tritonproof.reports.__main__ import main

FOLDER = Path(__file__).parent
_RESULTS = FOLDER.parents[1] / "reports"
_PAIR = tuple(
    f"reports/readme/cpu/cpu-resnet50-micro-onnx-{precision}.json" for precision in ("fp32", "int8")
)
_UNSEEN = ("script", "style", "svg", "title")
_WITHIN_A_LINE = ("a", "b", "button", "code", "em", "option", "span", "strong", "td", "th")


def outputs() -> dict[str, str]:
    """Every output by the name of its file."""
    # By relative paths, since a terminal's line breaks depend on a path's length.
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(_RESULTS.parent)
        patched.setenv("COLUMNS", "100")
        texts = {"compare.md": _said("compare", *_PAIR, "--format", "markdown")}
        texts["compare-terminal.txt"] = _said("compare", *_PAIR, "--format", "terminal")
    measured = record_files.read_folder(_RESULTS / "h200").values()
    # Of every model that NVIDIA published one case.
    shown = [one for one in measured if (one.case.format, one.case.precision) == ("ts-trace", "fp16")]
    with tempfile.TemporaryDirectory() as folder:
        committed = sample_records.store(Path(folder, "h200"), *shown)
        made_up = sample_records.store(Path(folder, "examples"), *_examples())
        texts |= _outputs_of(committed) | _outputs_of(made_up)
        return texts | {"examples-page.txt": _page(made_up)}


def _examples() -> list[Record]:
    """Cases with all that can be measured, and with all that can be wrong or missing."""
    point = sample_records.measured("offline", 8, 200.0)
    whole = sample_records.complete()
    plain = sample_records.record(points=(point, sample_records.measured("online", 16, 400.0)))

    def case(name: str, record: Record = plain, target: str = "a40", **changes: Any) -> Record:
        return structs.replace(record, **{"case": CaseKey(target, name, "onnx", None, "fp32"), **changes})

    published = (Limit(0.04, "published"),)
    error = sample_records.score(metric="mel MSE", better="lower", served=0.0385, limits=published)
    integers = OutputDifference("labels", "differing", 0.25, 0.5, 0.001, 0.01, "digit-0007", 3, 4, "of old")
    open_p99 = {"p99": structs.replace(sample_records.estimate(2.126), open_above=True)}
    rough = structs.replace(
        point,
        throughput_per_s=fields.Estimate(200.0, 150.0, 210.0, 0.9),
        latency_ms={**point.latency_ms, **open_p99},
        marks=(speed.Mark("wide-interval", "its interval is ± 40 %"), speed.Mark("niced", "nice 5")),
    )
    shared = speed.Mark("gpu-shared", "by another program")
    elsewhere = sample_records.efficiency("online", 4, marks=(shared,))
    wrong = sample_records.answers_under_load(1)
    wrong_in_soak = structs.replace(present(whole.soak), answers_under_load=wrong)
    here = speed.ServedSide("2.51.0", "fp16", 1e-5, (3.5, 4.0), {"memory of the server": 2.0**30})
    there = structs.replace(here, triton="2.50.0")
    build = structs.replace(whole.build, requests_note="made up from the configuration")
    tried = "12 answers to a sequence of 4 requests, sent again"
    talking = case(
        "chat",
        case=CaseKey("a40", "chat", "asis", None, ""),
        build=build,
        conversion=None,
        accuracy=None,
        points=(),
        gates=(sample_records.gate("conversation", requests=12, tried=tried),),
        baseline=speed.BaselineComparison("/srv/models", here, there, ("low on something",)),
    )
    far = sample_records.accuracy(error, outputs=(integers,))
    failed = sample_records.failed_accuracy()
    return [
        whole,
        talking,
        case("below-its-floor", accuracy=failed, points=(sample_records.wrong_under_load(point),)),
        case("wrong-in-soak", soak=wrong_in_soak, search=whole.search),
        case("fastpitch-micro", points=(rough,), accuracy=far, efficiency=(elsewhere,)),
        structs.replace(plain, case=structs.replace(plain.case, gpus=2)),
        case("not-measured", accuracy=None),
        case("stage-failed", accuracy=None, failures=(sample_records.step_failure(),)),
        case(
            "random", sample_records.random_weights(), "cpu", price_per_hour=3.6, efficiency=whole.efficiency
        ),
        case("searched", accuracy=None, points=(), search=whole.search),
    ]


def _outputs_of(folder: Path) -> dict[str, str]:
    results = "--results", str(folder)
    texts = {f"summary-{columns}.txt": _summary(folder, columns) for columns in ("80", "300")}
    texts |= {name: _said(*command, *results) for name, command in PRINTING.items()}
    return {f"{folder.name}-{name}": text.replace(str(folder), folder.name) for name, text in texts.items()}


def _said(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        status = main(arguments)
    return f"{output.getvalue().replace(str(_RESULTS), 'reports')}exit status {status}\n"


def _summary(results: Path, columns: str) -> str:
    """The summary of a run that wrote all these records, on a terminal so many columns wide."""
    records = [str(path.relative_to(results)) for path in sorted(results.glob("*/*.json"))]
    lines = Reporter(results, *records, isatty=True).summary(columns).split("\n")
    return "\n".join(line for line in lines if not line.startswith("records: ")) + "\n"


def _page(results: Path) -> str:
    """The text of the page that a reader sees, without its pictures, a row or paragraph in a line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        _said("html", "--results", str(results), "--output", str(path))
        text = _Text()
        text.feed(path.read_text())
    return "\n".join(text.lines).replace(str(results), results.name) + "\n"


class _Text(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.parts: list[str] = []
        self.unseen = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser passes them
        self.unseen += tag in _UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in _UNSEEN
        if tag not in _WITHIN_A_LINE and self.parts:
            self.lines.append(" | ".join(self.parts))
            self.parts = []

    def handle_data(self, data: str) -> None:
        if not self.unseen and data.strip():
            self.parts.append(" ".join(data.split()))


if __name__ == "__main__":
    for name, text in outputs().items():
        (FOLDER / name).write_text(text)
