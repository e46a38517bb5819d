"""Records of two runs side by side: what is compared and refused, differences, verdicts and exit statuses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from scipy import stats

from tests import sample_records as sample
from tritonproof.record import Record, record_files, sample_files, setup
from tritonproof.record.speed import PassSummary, PointResult
from tritonproof.reports.__main__ import main
from tritonproof.reports.compare import CaseChange, compare_records, pair_scores, read_record_sets, sign_flips

IDS = tuple(f"digit-{number:04d}" for number in range(500))


def passes(speed: float, *, deviation: float = 0.01) -> tuple[PassSummary, ...]:
    return tuple(sample.one_pass(speed * (1 + deviation * luck)) for luck in (-1, 0, 0.5, 0.5))


def point(size: int = 8, speed: float = 1000, **changes: Any) -> PointResult:
    fields = {"passes": passes(speed)} | changes
    return sample.measured("offline", size, speed, **fields)


def with_machine(record: Record, **changes: Any) -> Record:
    return structs.replace(record, machine=structs.replace(record.machine, **changes))


def store_samples(
    folder: Path, record: Record, served: Sequence[float], ids: Sequence[str] = IDS, **changes: Any
) -> None:
    scores = {"top-1": dict.fromkeys(sample_files.STAGES, tuple(served))}
    sample_scores = sample_files.SampleScores(record.case, record.build.digest, tuple(ids), scores, ())
    path = sample_files.samples_path(record.case, folder)
    sample_files.write(structs.replace(sample_scores, **changes), path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "before", tmp_path / "after"


@pytest.fixture
def changed(folders: tuple[Path, Path]) -> Any:
    """Stores two records of one case, and compares them."""

    def change(before: Record, after: Record) -> CaseChange:
        sample.store(folders[0], before)
        sample.store(folders[1], after)
        stored_before, stored_after = read_record_sets(folders)
        (case_change,) = compare_records(stored_before, stored_after)
        return case_change

    return change


def test_only_differing_settings_are_listed(changed: Any) -> None:
    before = sample.record()
    after = structs.replace(
        with_machine(before, versions={"python": "3.11.7", "torch": "2.14.0", "onnx": "1.22.0"}),
        deployment=structs.replace(before.deployment, preferred_batch_sizes=()),
        build=structs.replace(before.build, digest="77aa" * 16, build_time_s=1.0),
        serving=setup.Serving("embedded", "2.61.0", "python", "system"),
    )
    assert {setting.name: (setting.before, setting.after) for setting in changed(before, after).setup} == {
        "versions.torch": ("2.13.0", "2.14.0"),
        "versions.onnx": ("none", "1.22.0"),
        "serving.triton": ("2.51.0", "2.61.0"),
        "deployment.preferred_batch_sizes": ("64 128", "none"),
        "build.digest": ("0f3c", "77aa77aa77aa"),
    }
    assert changed(before, before).setup == []


@pytest.mark.parametrize(
    ("speed", "deviation", "outcome"),
    [
        (900, 0.01, "worse"),
        (1100, 0.01, "better"),
        (1000, 0.01, "unclear"),
        (900, 0.12, "unclear"),
        (1100, 0.12, "unclear"),
    ],
)
def test_speed_difference_needs_interval_excluding_one(
    speed: float, deviation: float, outcome: str, changed: Any
) -> None:
    after = sample.record(points=(point(speed=speed, passes=passes(speed, deviation=deviation)),))
    (point_change,) = changed(sample.record(points=(point(),)), after).points
    assert point_change.ratio.value == pytest.approx(speed / 1000, abs=0.02)
    assert point_change.outcome == outcome


def test_marginal_slowdown_is_inconclusive_among_forty_points(changed: Any) -> None:
    """About 3 % slower with an interval just below 1: shown as the only point, not among forty."""
    alike = tuple(point(size) for size in range(9, 48))
    usual, slow = point(), point(speed=970, passes=passes(970, deviation=0.015))
    (alone,) = changed(sample.record(points=(usual,)), sample.record(points=(slow,))).points
    before, after = (sample.record(points=(first, *alike)) for first in (usual, slow))
    among, *others = changed(before, after).points
    assert (alone.outcome, among.outcome) == ("worse", "unclear")
    assert alone.ratio == among.ratio
    assert {other.outcome for other in others} == {"unclear"}


def test_speed_at_a_rate_is_inverse_latency(changed: Any) -> None:
    """The schedule fixes the throughput."""

    def rated(latency_ms: float) -> Record:
        parts = [
            structs.replace(measured, latency_ms={"avg": latency_ms * (1 + n / 100)})
            for n, measured in enumerate(passes(50))
        ]
        return sample.record(points=(sample.at_rate(50.0, 50.0, passes=tuple(parts)),))

    (measured,) = changed(rated(2.0), rated(4.0)).points
    assert (measured.ratio.value, measured.outcome) == (pytest.approx(0.5), "worse")


def test_single_pass_has_no_interval_or_verdict(changed: Any) -> None:
    single = point(passes=(sample.one_pass(500),))
    (point_change,) = changed(sample.record(points=(point(),)), sample.record(points=(single,))).points
    assert (point_change.ratio, point_change.outcome) == (None, "unclear")


def test_sample_scores_are_compared_in_pairs(changed: Any, folders: tuple[Path, Path]) -> None:
    record = sample.record()
    store_samples(folders[0], record, [1.0] * 490 + [0.0] * 10)
    store_samples(folders[1], record, [0.0] * 15 + [1.0] * 476 + [0.0] * 9)
    (score,) = changed(record, record).scores
    pairs = score.pairs
    assert (pairs.outcome, pairs.samples) == ("worse", 500)
    assert pairs.lost == IDS[:15]
    assert pairs.gained == (IDS[490],)
    assert pairs.difference == pytest.approx(-14 / 500)


@pytest.mark.parametrize(
    "changes",
    [
        None,
        {"digest": "of old"},
        {"scores": {"F1": {"served": (1.0,) * 500}}},
        {"ids": tuple(f"other-{number}" for number in range(500))},
    ],
    ids=["no file", "another build", "another metric", "other samples"],
)
def test_unpaired_scores_state_the_reason(changes: Any, changed: Any, folders: tuple[Path, Path]) -> None:
    store_samples(folders[0], sample.record(), [1.0] * 500)
    if changes is not None:
        store_samples(folders[1], sample.record(), [1.0] * 500, **changes)
    after = sample.record(accuracy=sample.accuracy(sample.score(served=0.961)))
    (score,) = changed(sample.record(), after).scores
    assert (score.before.served, score.after.served) == (0.9625, 0.961)
    assert isinstance(score.pairs, str)


def scored(*values: float) -> dict[str, float]:
    return {f"sample-{number}": value for number, value in enumerate(values)}


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (1, 0), (5, 0), (8, 1), (20, 8)])
def test_right_and_wrong_are_told_apart_as_by_mcnemar(lost: int, gained: int) -> None:
    """By chance, as many of the changed samples became right as wrong."""
    change = np.array([-1.0] * lost + [1.0] * gained + [0.0] * 100)
    expected = stats.binomtest(gained, lost + gained).pvalue if lost else 1.0
    assert sign_flips(change) == pytest.approx(expected, abs=0.01 if lost + gained > 13 else 1e-12)


def test_sign_flips_agree_with_t_test_on_normal_noise() -> None:
    change = np.random.default_rng(2).normal(0.1, 1, 300)
    assert sign_flips(change) == pytest.approx(stats.ttest_1samp(change, 0).pvalue, abs=0.02)


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.5], [0.9]), ([1], [0]), ([1.0] * 500, [0.0] * 5 + [1.0] * 495)],
    ids=["one score", "one right or wrong", "five lost of many"],
)
def test_difference_is_not_shown_by_too_little(before: list[float], after: list[float]) -> None:
    assert pair_scores(scored(*before), scored(*after), "higher").outcome == "unclear"


@pytest.mark.parametrize(
    ("better", "outcome", "lost", "gained"), [("higher", "worse", 10, 1), ("lower", "better", 1, 10)]
)
def test_metric_direction_decides_what_is_better(better: str, outcome: str, lost: int, gained: int) -> None:
    before = scored(*[0.8] * 40)
    after = scored(*[0.7] * 10, 0.85, *[0.8] * 29)
    comparison = pair_scores(before, after, better)
    assert (comparison.outcome, len(comparison.lost), len(comparison.gained)) == (outcome, lost, gained)
    assert comparison.difference == pytest.approx(-0.95 / 40)


def test_common_samples_count_and_largest_changes_come_first() -> None:
    before = {"a": 0.9, "b": 0.9, "c": 0.9, "gone": 0.0}
    after = {"new": 1.0, "newer": 1.0, "c": 0.1, "b": 0.5, "a": 0.95}
    comparison = pair_scores(before, after, "higher")
    assert (comparison.samples, comparison.only_before, comparison.only_after) == (3, 1, 2)
    assert (comparison.lost, comparison.gained) == (("c", "b"), ("a",))


def test_records_of_different_formats_are_compared(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    other = structs.replace(sample.record(), case=setup.CaseKey("h100", "resnet50", "trt", None, "fp16"))
    sample.store(tmp_path, sample.record(), other)
    first, second = (record_files.record_path(record.case, tmp_path) for record in (sample.record(), other))
    assert "## a40-resnet50-onnx-trt-fp16 → h100-resnet50-trt-fp16\n" in printed("compare", first, second)
    nnunet = sample.store(tmp_path, sample.random_weights()) / "cpu" / "cpu-nnunet-ts-trace-fp32.json"
    assert f"where: {nnunet}\n" in refused("compare", first, nnunet)


def test_no_common_case_is_an_error(folders: tuple[Path, Path], refused: Callable[..., str]) -> None:
    sample.store(folders[0], sample.record())
    sample.store(folders[1], sample.random_weights())
    assert f"where: {folders[1]}\n" in refused("compare", *folders)


def test_cases_of_one_set_alone_are_named(tmp_path: Path, printed: Callable[..., str]) -> None:
    before = sample.store(tmp_path / "before", sample.record(), sample.random_weights())
    after = sample.store(tmp_path / "after", sample.record(), sample.ONNX)
    text = printed("compare", before, after)
    assert "\nOnly before: `cpu-nnunet-ts-trace-fp32`.\n" in text
    assert "\nOnly after: `a40-resnet50-onnx-fp32`.\n" in text


@pytest.mark.parametrize("name", ["nowhere", "empty", "record.txt", "x.samples.json"])
def test_argument_without_records_is_named(name: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    good, bad = sample.store(tmp_path / "good", sample.record()), tmp_path / name
    if name == "empty":
        bad.mkdir()
    elif name != "nowhere":
        record_files.write(sample.record(), bad)
    text = refused("compare", good, bad)
    assert text.startswith(f"error: {bad}: ")
    assert "Give a folder of records" in text


def test_damaged_samples_are_named(folders: tuple[Path, Path], refused: Callable[..., str]) -> None:
    for folder in folders:
        sample.store(folder, sample.record())
        store_samples(folder, sample.record(), [1.0] * 500)
    damaged = sample_files.samples_path(sample.record().case, folders[1])
    damaged.write_text(damaged.read_text()[:100])
    assert refused("compare", *folders).startswith(f"error: {damaged}: ")


WORSE = ("--fail-on", "worse")
LOWER = sample.accuracy(sample.score(served=0.961))
RIGHT, WRONG = [1.0] * 500, [0.0] * 50 + [1.0] * 450


NO_LOAD = sample.step_failure(step="offline", hides_speed=False, point=sample.load_point("offline", 8))


def at(speed: float, **changes: Any) -> Record:
    """The record of a case, by default with one load point of this speed."""
    return structs.replace(sample.record(), **({"points": (point(speed=speed),)} | changes))


def status_of(tmp_path: Path, before: Record, after: Record, *options: str) -> int:
    sample.store(tmp_path / "before", before)
    sample.store(tmp_path / "after", after)
    return main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), *options])


@pytest.mark.parametrize(
    ("before", "after", "options", "status"),
    [
        (at(1000), at(900), (), 0),
        (at(1000), at(900), WORSE, 10),
        (at(1000), at(1000), WORSE, 0),
        (at(1000), at(900), (*WORSE, "--allow-slowdown", "20%"), 0),
        (at(1000), at(900), (*WORSE, "--allow-slowdown", "0.5"), 10),
        # 104 is just above a tenth of the speed, which 90 % allow; 96 is below.
        (at(1000), at(104), (*WORSE, "--allow-slowdown", "90"), 0),
        (at(1000), at(96), (*WORSE, "--allow-slowdown", "90"), 10),
        (at(1000), at(1000, accuracy=sample.failed_accuracy()), WORSE, 12),
        (at(1000, accuracy=sample.failed_accuracy()), at(1000), WORSE, 4),
        (at(1000), at(1000, accuracy=None), WORSE, 4),  # which has not been measured
        (at(1000), at(1000, accuracy=LOWER), WORSE, 4),
        (at(1000), at(1000, accuracy=None, build=sample.random_weights().build), WORSE, 4),
        (at(1000), with_machine(at(1000), cores=64), WORSE, 4),
        (at(1000), with_machine(at(1000, accuracy=sample.failed_accuracy()), memory_gib=23), WORSE, 12),
        (at(1000), at(1000, points=(point(16),)), WORSE, 4),
        (at(1000, points=(point(), point(16))), at(1000), WORSE, 0),
        (at(1000), with_machine(at(1000), gpu_driver="999.1"), WORSE, 0),
        (at(1000), with_machine(at(900), gpu_uuids=("GPU-2",)), WORSE, 10),
    ],
)
def test_exit_status_reports_worse_results(
    tmp_path: Path, before: Record, after: Record, options: Sequence[str], status: int, capsys: Any
) -> None:
    assert status_of(tmp_path, before, after, *options) == status
    first, second = (with_machine(one, gpu_driver="", gpu_uuids=()).machine for one in (before, after))
    assert ("**The machines differ**" in capsys.readouterr().out) == (first != second)


def test_case_that_lost_all_figures_leaves_the_verdict_open(tmp_path: Path) -> None:
    other = structs.replace(at(1000), case=structs.replace(at(1000).case, model="nnunet"))
    for folder, one in (("before", other), ("after", structs.replace(other, accuracy=None))):
        sample.store(tmp_path / folder, one)
    assert status_of(tmp_path, at(1000), at(1000), *WORSE) == 4


def test_allowed_slowdown_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(tmp_path, at(1000), at(975), "--allow-slowdown", "3") == 0
    text = capsys.readouterr().out
    assert (text.count("the 3 % allowed"), text.count("no difference shown")) == (3, 0)


@pytest.mark.parametrize(
    ("after", "scores", "status"),
    [
        (at(900), WRONG, 12),
        (at(1000, points=()), RIGHT, 0),
        (at(1000, points=(), failures=(NO_LOAD,)), RIGHT, 4),
        (at(1000, points=(), failures=(structs.replace(NO_LOAD, point=None),)), RIGHT, 0),
        (at(500, conversion=None), RIGHT, 4),
        (at(1000, accuracy=LOWER), RIGHT, 0),  # by samples that all are as right as before
        (at(1000, accuracy=structs.replace(LOWER, samples=1)), RIGHT[:1], 4),
    ],
)
def test_worse_accuracy_comes_first(
    tmp_path: Path, after: Record, scores: list[float], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    store_samples(tmp_path / "before", at(1000), RIGHT)
    store_samples(tmp_path / "after", after, scores, IDS[: len(scores)])
    assert status_of(tmp_path, at(1000), after, *WORSE) == status
    assert ("offline failed: the served" in capsys.readouterr().out) == bool(after.failures)


@pytest.mark.parametrize("text", ["-1", "100", "150", "three", "nan"])
def test_invalid_slowdown_percentage_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as raised:
        status_of(tmp_path, at(1000), at(900), f"--allow-slowdown={text}")
    assert raised.value.code == 4
