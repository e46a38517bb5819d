"""The HTML page as text: what it says of records, and that nothing in it reaches outside or comes in unescaped."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.run import record_file
from reports.__main__ import main
from reports.page.html import page, rendered
from reports.page.interval_tables import accuracy_text, intervals_table
from reports.record import files, per_sample
from reports.record.per_sample import Part, Sample, SampleScores
from reports.record.schema import (
    Case,
    Mark,
    SameAnswers,
    VerifiedAnswers,
)
from reports.text.publishable import publishable
from tests import samples as records
from tests.page.pages import unmeasured, words

EVIL = "<script>alert('x')</script>"


class Elements(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a measured case, and of one that failed."""
    failed = records.record(
        case=Case("a40", "resnet50", "ts-trace", None, "fp16"),
        accuracy=records.failed_accuracy(),
        efficiency=(records.efficiency(),),
    )
    return page([publishable(records.record()), publishable(failed)], tmp_path_factory.mktemp("results"))


# --- what it says ------------------------------------------------------------------------------------------


def test_what_to_deploy_comes_first_then_the_summary_and_a_section_per_case(whole: str) -> None:
    sections = [one["id"] for one in Elements(whole).of("section")]

    assert sections == ["a40-resnet50-onnx-trt-fp16", "a40-resnet50-ts-trace-fp16"]
    assert whole.index('id="answers"') < whole.index('id="summary"') < whole.index(f'id="{sections[0]}"')
    links = {one["href"] for one in Elements(whole).of("a")}
    assert links == {"#cases", "#measured", *(f"#{name}" for name in sections)}


def test_where_the_page_opens_a_figure_stays_with_its_unit(whole: str) -> None:
    opening = whole[whole.index('id="answers"') : whole.index('id="summary"')]

    assert re.search(r"\d\N{NO-BREAK SPACE}(%|ms|infer/s)", opening)
    assert re.findall(r"\d (?:%|ms|infer/s)\b|± \d", opening) == []


def test_a_case_shows_its_figures_with_intervals(whole: str) -> None:
    text = words(whole)

    assert "2 cases: 1 passed, 1 not proven" in text
    assert "1573.6" in text
    assert "1573.6 (1542.1 to 1605.1)" in text
    assert "In brackets 95 % confidence intervals" in text
    assert "Static batching" in text
    assert "Dynamic batching" in text


def test_a_case_that_has_not_passed_shows_the_reason(whole: str) -> None:
    failed = whole[whole.index('<section class="case" id="a40-resnet50-ts-trace-fp16"') :]
    text = words(failed)

    assert "No throughput is shown: served top-1 93.1 % is below its floor of 94.0 % (published)" in text
    assert "data:image/svg" not in failed
    row = whole[whole.index('<tr data-case="a40-resnet50-ts-trace-fp16"') :].partition("</tr>")[0]
    assert row.count(">-<") >= 3


def test_the_page_says_whether_answers_depend_on_how_a_sample_is_sent() -> None:
    same = SameAnswers(16, 96, 2e-7, 1.0, passed=True)
    depending = structs.replace(same, relative_difference=0.3, passed=False, sample="digit-0007")

    assert "however it is sent" in accuracy_text(records.record(accuracy=records.accuracy(same_answers=same)))
    told = accuracy_text(records.record(accuracy=records.accuracy(same_answers=depending, passed=False)))
    assert "depend on how a sample is sent" in told
    assert "digit-0007" in told


def test_the_page_says_how_many_samples_and_answers_stand_behind_a_point() -> None:
    load = records.load("offline", 8, 1573.6, samples=63, answers=VerifiedAnswers(4100, 0, 520, 0.5))

    assert {"63", "4100"} <= set(intervals_table([load]).split())


def test_the_ledger_has_every_limit_with_its_verdict(whole: str) -> None:
    text = words(whole)

    assert "top-1 96.4 % 96.4 % 96.25 % ≥ 95.9 % framework less 0.5 % kept" in text
    assert "top-1 96.4 % 96.4 % 93.1 % ≥ 94.0 % published not kept" in text
    assert "converted and served 1 1 0 99.80 % ≥ 99.00 % digit-0007" in text


def test_published_figures_stand_beside_a_case(whole: str) -> None:
    assert re.search(r"Beside NVIDIA A40 .* Ratios are measured over published", words(whole))


def test_plots_are_there_in_both_themes(whole: str) -> None:
    dark = [one["srcset"] for one in Elements(whole).of("source")]
    light = [
        one for one in Elements(whole).of("img") if str(one["src"]).startswith("data:image/svg+xml;base64,")
    ]

    assert len(dark) == len(light) == 3
    assert all(one["alt"] for one in light)
    for uri, other in zip(dark, light, strict=True):
        assert b"<svg" in base64.b64decode(str(uri).partition(",")[2])
        assert uri != other["src"]


def test_the_order_of_a_score_is_that_of_its_value(tmp_path: Path) -> None:
    close = records.accuracy(records.score(served=0.98256))

    html = page([publishable(unmeasured(accuracy=close))], tmp_path)

    assert '<td data-sort="98.256">top-1 98.26 %</td>' in html


def test_a_case_of_random_weights_is_not_said_to_have_passed(tmp_path: Path) -> None:
    text = words(page([publishable(structs.replace(records.random_weights(), loads=()))], tmp_path))

    assert "1 case: 1 accuracy not measured" in text
    assert "random weights: no checkpoint was given (--checkpoint DIR). The conversion holds." in text


def test_a_case_that_was_only_searched_shows_what_was_found_and_not_that_it_failed(tmp_path: Path) -> None:
    found = records.search(load=records.load("online", 16, 4321.0), accuracy=records.accuracy())

    html = page([publishable(unmeasured(accuracy=None, search=found))], tmp_path)

    assert "1 case: 1 search only" in words(html)
    assert words(html).count("4,321.0 infer/s with p99 2.126 ms") == 2, (
        "below the summary, and in its section"
    )
    assert "not proven" not in words(html)


def test_a_mark_is_a_badge_in_the_summary_and_a_sentence_in_the_section(tmp_path: Path) -> None:
    marked = records.load("offline", 1, 100.0, marks=(Mark("cpu-shared", "0.7 cores were busy with others"),))

    html = page([publishable(records.record(loads=(marked,)))], tmp_path)

    assert '<span class="badge care" title="0.7 cores were busy with others">cpu-shared</span>' in html
    assert "batch 1: 0.7 cores were busy with others" in words(html)


# --- safe, and alone ---------------------------------------------------------------------------------------


def test_nothing_in_the_page_reaches_outside(whole: str) -> None:
    for tag, attributes in Elements(whole).found:
        for name in ("src", "href", "srcset", "action", "data", "poster", "background"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/")), (tag, name, value)
        assert tag not in ("link", "iframe", "object", "embed", "base"), tag
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    style = re.search(r"<style>(.*?)</style>", whole, re.DOTALL)
    assert style is not None
    assert not re.search(r"url\(|@import|https?:", style[1])


def test_only_the_pages_own_script_may_run(whole: str) -> None:
    (policy,) = (one["content"] for one in Elements(whole).of("meta") if "http-equiv" in one)
    script = re.search(r"<script>(.*?)</script>", whole, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()

    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert whole.count("<script") == 1


def test_what_comes_from_files_is_escaped_everywhere(tmp_path: Path) -> None:
    load = records.load("offline", 1, 100.0, marks=(Mark("cpu-shared", EVIL), Mark(EVIL, EVIL)))
    record = records.record(
        machine=structs.replace(
            records.record().machine, cpu=EVIL, gpu=EVIL, system=EVIL, versions={EVIL: EVIL}
        ),
        build=structs.replace(records.record().build, weights=EVIL, format=EVIL, engine=EVIL),
        accuracy=records.accuracy(records.score(metric=EVIL), samples=2),
        loads=(load,),
    )
    sample = Sample(EVIL, EVIL, (Part("text", EVIL, EVIL), Part("image", EVIL, f'"{EVIL}')))
    found = SampleScores(record.case, record.build.digest, (EVIL, "b"), {}, (sample,))
    per_sample.write(found, per_sample.path_of(record.case, tmp_path))
    record_file.keep(files.path_of(record.case, tmp_path).with_suffix(files.CONFIG_SUFFIX), EVIL)

    html = page([publishable(record)], tmp_path)

    assert html.count("<script") == 1
    assert words(html).count("alert(") > 10, "what is escaped is still there to read"


@pytest.mark.parametrize(
    "text",
    [
        "[a](https://example.org)",
        "![a](https://example.org/a.png)",
        "<https://example.org>",
        "https://example.org",
        "<img src=x>",
        "[a]: https://example.org\n\n[a]",
        "a *b* __c__ &amp;",
    ],
)
def test_a_name_that_looks_like_markdown_stays_a_name(text: str) -> None:
    html = rendered(f"- {text}")

    assert {tag for tag, _ in Elements(html).found} <= {"ul", "li", "p"}


def test_headings_start_at_the_level_of_their_place() -> None:
    assert rendered("#### A\n\n##### B", 3) == "<h3>A</h3>\n<h4>B</h4>\n"


# --- the command -------------------------------------------------------------------------------------------


def test_the_command_writes_the_chosen_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = unmeasured(case=Case("cpu", "bert-dist4l", "onnx", None, "fp32"))
    for record in (unmeasured(), other):
        files.write(record, files.path_of(record.case, tmp_path))
    output = tmp_path / "report.html"

    status = main(["html", "--results", str(tmp_path), "-k", "bert", "--output", str(output)])

    assert status == 0
    assert str(output) in capsys.readouterr().out
    assert [one["id"] for one in Elements(output.read_text()).of("section")] == ["cpu-bert-dist4l-onnx-fp32"]


def test_a_damaged_file_of_samples_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = unmeasured()
    files.write(record, files.path_of(record.case, tmp_path))
    path = per_sample.path_of(record.case, tmp_path)
    path.write_text('{"schema": 1}')

    status = main(["html", "--results", str(tmp_path), "--output", str(tmp_path / "report.html")])

    assert status == 4
    assert f"error: {path}: " in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()
