"""What lies beside a record is shown on the page, and nothing that lies elsewhere."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.run import record_file
from reports.__main__ import main
from reports.page.html import page
from reports.record import files, per_sample
from reports.record.per_sample import Part, Sample, SampleScores
from reports.record.schema import (
    Record,
)
from reports.text.publishable import publishable
from tests import samples as records
from tests.page.pages import unmeasured, words

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


def with_samples(record: Record, results: Path, *parts: Part) -> None:
    """A file of samples beside the record, whose worst one shows these parts."""
    assert record.accuracy is not None
    count = record.accuracy.samples
    scores = {"top-1": dict.fromkeys(("framework", "converted"), (1.0,) * count)}
    scores["top-1"]["served"] = (0.0, *(1.0,) * (count - 1))
    found = SampleScores(
        record.case,
        record.build.digest,
        tuple(f"digit-{i:04d}" for i in range(count)),
        scores,
        (Sample("digit-0000", "served scores worse than converted", parts),),
    )
    per_sample.write(found, per_sample.path_of(record.case, results))


def test_without_a_file_of_samples_the_page_says_so(tmp_path: Path) -> None:
    assert "No file of samples lies beside this record" in words(page([publishable(unmeasured())], tmp_path))


def test_the_worst_samples_are_shown_with_their_scores(tmp_path: Path) -> None:
    record = unmeasured()
    with_samples(record, tmp_path, Part("image", "Image", PIXEL), Part("text", "Label", "class 3"))

    html = page([publishable(record)], tmp_path)

    assert f'<img src="data:image/png;base64,{PIXEL}" alt="Image of digit-0000">' in html
    text = words(html)
    assert (
        "served scores worse than converted top-1: framework 100.0 %, converted 100.0 %, served 0.0 %" in text
    )
    assert "Label class 3" in text


def test_samples_of_another_build_are_not_shown(tmp_path: Path) -> None:
    record = unmeasured()
    with_samples(record, tmp_path, Part("text", "Label", "class 3"))
    rebuilt = structs.replace(record, build=structs.replace(record.build, digest="new"))

    text = words(page([publishable(rebuilt)], tmp_path))

    assert "class 3" not in text
    assert "it is of another build" in text


def test_the_configurations_beside_the_record_are_shown(tmp_path: Path) -> None:
    path = files.path_of(records.record().case, tmp_path)
    assert "No config.pbtxt lies beside this record" in words(page([publishable(unmeasured())], tmp_path))
    record_file.keep(path.with_suffix(files.CONFIG_SUFFIX), 'name: "own" dynamic_batching { }')
    name = record_file.write_config(path, 'name: "winner"')
    search = records.search(config=name)

    text = words(page([publishable(unmeasured(search=search))], tmp_path))

    assert "name: &#34;own&#34; dynamic_batching" in text
    assert "config.pbtxt of the search's winner name: &#34;winner&#34;" in text.replace("&#39;", "'")


def test_a_configuration_holds_nothing_that_a_terminal_would_obey(tmp_path: Path) -> None:
    path = files.path_of(records.record().case, tmp_path)
    record_file.keep(path.with_suffix(files.CONFIG_SUFFIX), 'name: "\x1b[2Jown"')

    text = page([publishable(unmeasured())], tmp_path)

    assert "\x1b" not in text
    assert r"name: &#34;\x1b[2Jown&#34;" in words(text)


SECRET = "a password of somebody else's"


def searched(config: str) -> Record:
    """A case whose search says that its winner's configuration is in this file."""
    return unmeasured(search=records.search(config=config))


@pytest.mark.parametrize(
    "name", ["{}", "../../{}", "x.search/../../../secret", "secret", "{}\0", "/dev/zero", ".."]
)
def test_a_record_cannot_have_the_page_show_another_file(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    results = tmp_path / "results"
    record = searched(name.format(secret))
    (records.store(results, record) / "a40" / "secret").write_text(SECRET)
    (results / "a40" / "x.search").mkdir()

    with pytest.raises(
        files.RecordError, match=r"search\.config: .* is not a40-resnet50-onnx-trt-fp16\.search/config\.pbtxt"
    ):
        page([publishable(record)], results)


STRANGE: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, secret: path.symlink_to(secret),
    "a FIFO": lambda path, _secret: os.mkfifo(path),
    "a folder": lambda path, _secret: path.mkdir(),
    "a link to a device": lambda path, _secret: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path, _secret: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("suffix", [".config.pbtxt", ".samples.json", ".search/config.pbtxt", ".json"])
def test_what_is_beside_a_record_and_is_no_file_of_its_own_is_refused(
    suffix: str, strange: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    record = searched("a40-resnet50-onnx-trt-fp16.search/config.pbtxt")
    results = records.store(tmp_path / "results", record)
    path = files.path_of(record.case, results)
    if suffix == ".json":
        path.rename(secret)
    path = path.parent / f"{path.stem}{suffix}"
    path.parent.mkdir(exist_ok=True)
    STRANGE[strange](path, secret)

    assert main(["html", "--results", str(results), "--output", str(tmp_path / "page.html")]) == 4
    assert f"error: {path}: cannot be read: it is, or lies behind, a symbolic link" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("name", ["config.pbtxt", "samples.json"])
def test_a_link_to_a_folder_beside_a_record_is_not_followed(name: str, tmp_path: Path) -> None:
    record = searched("a40-resnet50-onnx-trt-fp16.search/config.pbtxt")
    assert record.search is not None
    record = structs.replace(record, search=structs.replace(record.search, accuracy=records.accuracy()))
    results = records.store(tmp_path / "results", record)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / name).write_text(SECRET)
    (results / "a40" / "a40-resnet50-onnx-trt-fp16.search").symlink_to(elsewhere)

    with pytest.raises(
        files.RecordError, match=f"{name}: cannot be read: it is, or lies behind, a symbolic link"
    ):
        page([publishable(record)], results)


def test_a_configuration_as_large_as_none_is_refused(tmp_path: Path) -> None:
    path = files.path_of(records.record().case, tmp_path).with_suffix(files.CONFIG_SUFFIX)
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(2**20 + 1)

    with pytest.raises(files.RecordError, match="larger than 1 MiB"):
        page([publishable(unmeasured())], tmp_path)


def test_a_link_to_the_folder_of_results_may_be_given(tmp_path: Path) -> None:
    record = unmeasured()
    results = records.store(tmp_path / "results", record)
    record_file.keep(files.path_of(record.case, results).with_suffix(files.CONFIG_SUFFIX), 'name: "own"')
    (tmp_path / "link").symlink_to(results)

    assert main(["html", "--results", str(tmp_path / "link"), "--output", str(tmp_path / "page.html")]) == 0
    assert "name: &#34;own&#34;" in (tmp_path / "page.html").read_text()
