"""The page shows the files beside a record and no others."""

from pathlib import Path

import pytest
from msgspec import structs

from tests import sample_records
from tests.conftest import Reports
from tests.helpers import present
from tests.reports.page.pages import page_of, unmeasured, words
from tritonproof.record import Record, record_files, sample_files
from tritonproof.record.sample_files import Sample, SamplePart, SampleScores
from tritonproof.run import record_updates

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
PARTS = (SamplePart("image", "Image", PIXEL), SamplePart("text", "Label", "class 3"))


def test_worst_samples_are_shown_only_for_the_same_build(tmp_path: Path) -> None:
    record = unmeasured()
    count = present(record.accuracy).samples
    right = (1.0,) * count
    scores = {"top-1": {"framework": right, "converted": right, "served": (0.0, *right[1:])}}
    ids = tuple(f"digit-{i:04d}" for i in range(count))
    worst = Sample("digit-0000", "lost", PARTS)
    sample_scores = SampleScores(record.case, record.build.digest, ids, scores, (worst,))
    sample_files.write(sample_scores, sample_files.samples_path(record.case, tmp_path))
    html = page_of(tmp_path, record)

    assert f'<img src="data:image/png;base64,{PIXEL}" alt="Image of digit-0000">' in html
    assert "lost top-1: framework 100.0 %, converted 100.0 %, served 0.0 %" in words(html)
    assert "Label class 3" in words(html)
    rebuilt = structs.replace(record, build=structs.replace(record.build, digest="new"))
    assert "class 3" not in page_of(tmp_path, rebuilt)


def test_configurations_are_shown_without_control_characters(tmp_path: Path) -> None:
    as_it_is = structs.replace(sample_records.record().case, precision="")
    path = record_files.record_path(as_it_is, tmp_path)
    record_updates.write_beside(path.with_suffix(record_files.CONFIG_SUFFIX), b'name: "\x1b[2Jown"')
    name = record_updates.write_search_config(path, 'name: "winner"')

    html = page_of(tmp_path, unmeasured(search=sample_records.search(config=name), case=as_it_is))

    assert "offline it lacks" not in html
    assert "\x1b" not in html
    assert r"name: &#34;\x1b[2Jown&#34;" in html
    assert "name: &#34;winner&#34;" in html


SECRET = "a password of somebody else's"
CONFIG = "a40-resnet50-onnx-trt-fp16.search/config.pbtxt"


def searched(config: str = CONFIG) -> Record:
    """A case whose search names this file for its winner's configuration."""
    return unmeasured(search=sample_records.search(config=config, accuracy=sample_records.accuracy()))


@pytest.mark.parametrize(
    "name", ["{}", "../../{}", "x.search/../../../secret", "secret", "{}\0", "/dev/zero", ".."]
)
def test_record_cannot_show_other_files(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    results = tmp_path / "results"
    record = searched(name.format(secret))
    (sample_records.store(results, record) / "a40" / "secret").write_text(SECRET)
    (results / "a40" / "x.search").mkdir()
    assert SECRET not in page_of(results, record)


@pytest.mark.parametrize("suffix", [".config.pbtxt", ".samples.json", ".search/config.pbtxt", ".json"])
def test_link_in_place_of_a_file_is_refused(suffix: str, tmp_path: Path, reports: Reports) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    results = sample_records.store(tmp_path / "results", searched())
    path = record_files.record_path(searched().case, results)
    if suffix == ".json":
        path.rename(secret)
    path = path.parent / f"{path.stem}{suffix}"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(secret)

    result = reports("html", "--results", results, "--output", tmp_path / "page.html")

    assert result.status == 4
    assert f"error: {path}: " in result.err
    assert not (tmp_path / "page.html").exists()


def test_linked_folder_beside_record_is_not_followed(tmp_path: Path) -> None:
    results = sample_records.store(tmp_path / "results", searched())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.pbtxt").write_text(SECRET)
    (results / "a40" / CONFIG).parent.symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"config\.pbtxt"):
        page_of(results, searched())
