"""What readers are told of where measurements come from, and what they are not told where names are left out."""

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from reports.merge import folders
from reports.record import files, machines, per_sample
from reports.record.schema import Record, Start
from tests import samples

HOST, UUID = "secret-host", "GPU-5ec2e70d-1111-2222-3333-444455556666"
README = Path("reports/readme")


def measured(host: str = HOST, uuid: str = UUID, run: int = 1) -> Record:
    """The sample case with everything that may name a machine."""
    one = samples.record()
    search = samples.search(accuracy=samples.accuracy())
    whole = dataclasses.replace(
        one, gates=(samples.gate(),), starts=(Start("offline", 0.4, 2.5, 12.5),), search=search
    )
    return samples.measured_at(samples.origin(host, run, uuid), whole)


@pytest.fixture
def one_machine(tmp_path: Path) -> Path:
    return samples.store(tmp_path / "one", measured())


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    """A merged folder of two machines that measured one case, with what stands beside their records."""
    shards = []
    for number in (1, 2):
        one = measured(f"{HOST}-{number}", f"{UUID}{number}")
        shards.append(samples.store(tmp_path / f"node{number}", one))
        scores = {"top-1": {"served": (0.0,) * 500}}
        found = per_sample.SampleScores(one.case, "0f3c", tuple(map(str, range(500))), scores, ())
        per_sample.write(found, per_sample.path_of(one.case, shards[-1]))
        files.path_of(one.case, shards[-1]).with_suffix(".server.log").write_text(f"on {HOST}-{number}")
    folders.merge(shards, tmp_path / "twins")
    return tmp_path / "twins"


def test_tables_say_host_commit_and_start_of_the_run(one_machine: Path, printed: Callable[..., str]) -> None:
    text = printed("tables", "--results", one_machine)
    line = next(line for line in text.splitlines() if line.startswith("- Measured: "))
    assert HOST in line
    assert "c0ffee000000" in line
    assert "2026-03-01 00:00 UTC" in line


def test_a_checkout_that_was_changed_is_said_to_be(tmp_path: Path, printed: Callable[..., str]) -> None:
    where = dataclasses.replace(samples.origin(), clean=False)
    text = printed(
        "tables", "--results", samples.store(tmp_path, samples.measured_at(where, samples.record()))
    )
    assert "c0ffee000000, changed" in text


def test_tables_tell_two_machines_of_one_case_apart(twins: Path, printed: Callable[..., str]) -> None:
    text = printed("tables", "--results", twins)
    names = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert len(set(names)) == 2
    assert all(name.startswith("a40-resnet50-onnx-trt-fp16@secret-host-") for name in names)


def test_rows_of_csv_say_which_machine_and_run_they_are_of(twins: Path, printed: Callable[..., str]) -> None:
    rows = pd.read_csv(io.StringIO(printed("csv", "--results", twins)))
    assert sorted(set(rows["host"])) == [f"{HOST}-1", f"{HOST}-2"]
    assert sorted(set(rows["gpu_uuids"])) == [f"{UUID}1", f"{UUID}2"]
    assert rows["machine"].nunique() == 2
    assert set(rows["commit"]) == {"c0ffee" + "0" * 34}
    assert set(rows["clean"]) == {True}
    assert set(rows["run_started"]) == {"2026-03-01T00:00:00+00:00"}


COMMANDS = [
    ["tables"],
    ["csv"],
    ["published"],
    ["published", "--csv"],
    *(["export", "--format", name] for name in ("bencher", "customBiggerIsBetter", "customSmallerIsBetter")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("folder", ["one_machine", "twins"])
def test_nothing_anonymous_names_a_host_or_a_gpu(
    command: list[str], folder: str, request: pytest.FixtureRequest, printed: Callable[..., str]
) -> None:
    results = request.getfixturevalue(folder)
    text = printed(*command, "--results", results, "--anonymous")
    assert text
    assert "secret" not in text
    assert "5ec2e70d" not in text


def test_an_anonymous_page_names_no_host_or_gpu_and_has_the_samples_of_each_machine(
    twins: Path, tmp_path: Path, printed: Callable[..., str]
) -> None:
    printed("html", "--results", twins, "--anonymous", "--output", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "secret" not in page
    assert "5ec2e70d" not in page
    assert page.count('<section class="case"') == 2
    assert 'id="a40-resnet50-onnx-trt-fp16@anonymous-2"' in page
    printed("html", "--results", twins, "--output", tmp_path / "page.html")
    assert f"{HOST}-2" in (tmp_path / "page.html").read_text()


def test_a_readme_names_hosts_only_where_it_is_asked_to(
    one_machine: Path, tmp_path: Path, printed: Callable[..., str]
) -> None:
    file = tmp_path / "README.md"
    file.write_text("<!-- tritonproof:machine -->\n<!-- /tritonproof:machine -->\n")
    printed("readme", file, "--results", one_machine)
    assert "secret" not in file.read_text()
    assert "c0ffee" in file.read_text()
    printed("readme", file, "--results", one_machine, "--hosts")
    assert "secret" in file.read_text()


@pytest.mark.parametrize("folder", ["one_machine", "twins"])
def test_an_anonymous_merge_holds_no_name_anywhere_and_loses_no_figure(
    folder: str, tmp_path: Path, request: pytest.FixtureRequest, printed: Callable[..., str]
) -> None:
    results = request.getfixturevalue(folder)
    printed("merge", results, "--anonymous", "--output", tmp_path / "out")
    for path in (tmp_path / "out").rglob("*"):
        assert "secret" not in path.name
        assert not path.is_file() or b"secret" not in path.read_bytes()
        assert not path.is_file() or b"5ec2e70d" not in path.read_bytes()
    with_names, without = files.read_all(results), files.read_all(tmp_path / "out")
    assert [len(machines.measurements(one)) for one in without] == [
        len(machines.measurements(one)) for one in with_names
    ]
    assert len(list((tmp_path / "out").rglob("*.samples.json"))) == len(list(results.rglob("*.samples.json")))


def test_an_anonymous_merge_of_an_anonymous_folder_changes_nothing(twins: Path, tmp_path: Path) -> None:
    folders.merge([twins], tmp_path / "first", anonymous=True)
    folders.merge([tmp_path / "first"], tmp_path / "second", anonymous=True)
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json")}
        for folder in (tmp_path / "first", tmp_path / "second")
    )
    assert first == second


def test_a_measurement_that_is_there_with_and_without_its_machine_is_there_once(
    one_machine: Path, tmp_path: Path
) -> None:
    folders.merge([one_machine], tmp_path / "nameless", anonymous=True)
    folders.merge([tmp_path / "nameless", one_machine], tmp_path / "out")
    assert files.read_all(tmp_path / "out") == files.read_all(one_machine)


def test_the_published_records_name_no_host_and_no_gpu() -> None:
    for path in files.record_paths(README):
        record = json.loads(path.read_text())
        found = [one for part in record.values() for one in (part if isinstance(part, list) else [part])]
        origins = [one["origin"] for one in found if isinstance(one, dict) and one.get("origin")]
        assert [one for one in origins if one["host"] or one["gpu_uuids"]] == []
        assert record["machine"]["gpu_uuids"] == []
