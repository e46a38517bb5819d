"""The markers of a markdown file: each table and plot by its own, with the pictures' files in step."""

import os
import re
from pathlib import Path

import pytest
from msgspec import structs

from reports import plots, readme
from reports.record.schema import case_id
from reports.tables.case import configuration_list, parameters_table
from reports.tables.points import points_table
from reports.text.publishable import publishable
from tests import samples
from tests.conftest import Reports
from tests.helpers import as_markdown

SWEPT = samples.swept()
CASE = case_id(SWEPT.case)
RECORDS = [SWEPT, samples.random_weights()]
SEEN = samples.seen(*RECORDS)


def region(name: str) -> str:
    """A page with one region."""
    return f"# Mine\n\n<!-- tritonproof:{name} -->\n<!-- /tritonproof:{name} -->\n"


def body(name: str) -> str:
    """What is written into a region."""
    return readme.sync(region(name), SEEN).partition("-->\n\n")[2].partition("\n\n<!--")[0]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with the records."""
    return samples.store(tmp_path / "results", *RECORDS)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with a picture of a case and one of all, in a folder of its own."""
    file = tmp_path / "my docs" / "PAGE.md"
    file.parent.mkdir()
    file.write_text(region(f"plot accuracy-ledger {CASE}") + region("plot best-throughput"))
    return file


def linked(page: Path) -> list[Path]:
    """The files that a page's pictures link to."""
    links = re.findall(r'src(?:set)?="([^"]*)"', page.read_text())
    return [page.parent / link.replace("%20", " ") for link in links]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"offline {CASE}", as_markdown(points_table(publishable(SWEPT), "offline"))),
        (f"online {CASE}", as_markdown(points_table(publishable(SWEPT), "online"))),
        (f"parameters {CASE}", as_markdown(parameters_table(publishable(SWEPT), "online"))),
        (f"configuration {CASE}", as_markdown(configuration_list(publishable(SWEPT), "online"))),
        (
            "parameters cpu-nnunet-ts-trace-fp32",
            as_markdown(parameters_table(publishable(RECORDS[1]), "offline")),
        ),
        (
            f"search {CASE}",
            "Nothing has been measured to show the fastest configuration within a latency budget.",
        ),
        ("comparison", "Nothing has been measured to show the speed of load points beside another build."),
    ],
)
def test_each_table_has_its_marker(name: str, text: str) -> None:
    assert body(name) == text


@pytest.mark.parametrize("kind", ["offline", "online", "efficiency", "use"])
def test_a_case_that_is_not_right_shows_the_reason_in_place_of_its_speed(kind: str) -> None:
    wrong = samples.swept(accuracy=samples.failed_accuracy())
    assert "No throughput is shown: " in readme.sync(region(f"{kind} {CASE}"), [publishable(wrong)])


def test_every_marker_of_the_help_can_be_rendered() -> None:
    forms = [line.split("  ")[1] for line in readme.overview().splitlines() if line[2] != " "]
    assert {form.split()[0] for form in forms} == {
        *readme.OF_ALL,
        *readme.OF_CASE,
        *readme.FOREIGN,
        "plot",
    }
    for form in forms:
        name = form.replace("[CASE_ID]", CASE).replace("CASE_ID", CASE)
        readme.sync(region(name), SEEN)


def test_a_plot_is_a_picture_in_both_themes_with_its_gist() -> None:
    chart = plots.chart("throughput-latency", [publishable(SWEPT)], 10.0)
    assert body(f"plot throughput-latency {CASE} 10ms").splitlines() == [
        "<picture>",
        f'  <source media="(prefers-color-scheme: dark)" srcset="plots/{CASE}-throughput-latency-10ms-dark.svg">',
        f'  <img alt="{chart.alternative}" src="plots/{CASE}-throughput-latency-10ms-light.svg">',
        "</picture>",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plot sweep", r"^line 3: there is no plot 'sweep'\. There are accuracy-ledger, "),
        ("plot throughput-latency", r"needs a case\. Write tritonproof:plot throughput-latency CASE_ID"),
        ("plot throughput-latency 10ms", r"needs a case\. Write tritonproof:plot throughput-latency CASE_ID"),
        (f"plot throughput-latency {CASE} {'9' * 400}ms", "ms is no latency budget. Write one above 0"),
        (f"plot throughput-latency {CASE} 0ms", "0 ms is no latency budget"),
        ("plot", r"^line 3: unknown marker tritonproof:plot\. There are .*plot NAME"),
        (f"plot throughput-latency {CASE} tenms", r"unknown marker"),
        (
            "plot throughput-latency x",
            r"there is no record of x\. Measure: .venv/bin/tox run -e benchmarks -- -k x",
        ),
        ("offline", r"^line 3: tritonproof:offline needs a case\. Write tritonproof:offline CASE_ID"),
        (f"summary {CASE}", r"unknown marker"),
    ],
)
def test_a_marker_that_cannot_be_rendered_says_what_to_write(name: str, message: str) -> None:
    with pytest.raises(readme.ReadmeError, match=message):
        readme.sync(region(name), SEEN)


def test_the_command_writes_pictures_beside_the_page(sync_page: Reports, page: Path) -> None:
    assert sync_page()[0] == 0
    assert {path.parent for path in linked(page)} == {page.parent / "plots"}
    assert sorted(linked(page)) == sorted((page.parent / "plots").iterdir())
    assert sync_page("--check")[:2] == (0, f"{page}: in step with the records\n")


def test_pictures_may_lie_in_another_folder_and_stay_there(
    sync_page: Reports, page: Path, tmp_path: Path
) -> None:
    sync_page("--plots", str(tmp_path / "my pictures"))
    assert 'src="../my%20pictures/best-throughput-light.svg"' in page.read_text()
    assert all(path.is_file() for path in linked(page))
    assert sync_page("--check")[0] == 0
    assert sync_page()[1] == f"{page}: in step with the records\n"
    assert not (page.parent / "plots").exists()


@pytest.mark.parametrize("damage", ["missing", "other records", "broken off", "another picture"])
def test_the_check_finds_a_picture_that_is_not_in_step(damage: str, sync_page: Reports, page: Path) -> None:
    sync_page()
    picture = page.parent / "plots" / "best-throughput-light.svg"
    text = picture.read_text()
    if damage == "missing":
        picture.unlink()
    else:
        others = [samples.swept(loads=SWEPT.loads[:3]), RECORDS[1]]
        now = {
            "other records": plots.draw(
                plots.chart("best-throughput", [publishable(one) for one in others]), "light"
            ).decode(),
            "broken off": text[:2000],
            "another picture": "<svg/>",
        }
        picture.write_text(now[damage])
    status, output, _ = sync_page("--check")
    assert status == 1
    assert output.startswith(f"{page}: differs from the records in {os.path.relpath(picture)}\n")
    assert sync_page()[1] == f"{page}: wrote {os.path.relpath(picture)}\n"
    assert picture.read_text() == text
    assert sync_page("--check")[0] == 0


def test_the_check_names_a_command_that_can_be_pasted(sync_page: Reports, page: Path, results: Path) -> None:
    folder = page.parent / "pics"
    _, output, _ = sync_page("--check", "--plots", str(folder))
    assert f"python -m reports readme '{page}' --results {results} --plots '{folder}'" in output
    assert not folder.exists()


@pytest.mark.parametrize("link", ["https://example.org/plots", "/plots"])
def test_a_link_to_elsewhere_is_no_folder_to_write_into(link: str, sync_page: Reports, page: Path) -> None:
    sync_page()
    page.write_text(page.read_text().replace('"plots/', f'"{link}/'))
    assert sync_page("--check")[0] == 1
    sync_page()
    assert {path.parent for path in linked(page)} == {page.parent / "plots"}


@pytest.mark.parametrize(
    "said",
    ["<!-- /tritonproof:summary -->", "`is <!-- /tritonproof:summary -->`", "\\<!-- tritonproof:x -->"],
)
def test_a_marker_in_what_a_record_says_is_text(said: str) -> None:
    one = samples.record(accuracy=samples.accuracy(samples.score(metric=said)))
    machine = structs.replace(one.machine, cpu=said, gpu=None)
    record = publishable(structs.replace(one, machine=machine))
    for name in ("machine", "summary", f"case {case_id(record.case)}"):
        synced = readme.sync(region(name), [record])
        assert readme.drifted(synced, [record]) == []
        assert readme.sync(synced, [record]) == synced
