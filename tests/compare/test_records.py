"""Records of two runs side by side: what differs is named, what is shown is honest, and nothing is dropped."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.record import per_sample, schema
from reports.record.schema import Load, Record, Serving
from tests import samples as sample

CASE = "a40-resnet50-onnx-trt-fp16"
IDS = tuple(f"digit-{number:04d}" for number in range(500))


def passes(speed: float, *, spread: float = 0.01) -> tuple[schema.Pass, ...]:
    return tuple(sample.one_pass(speed * (1 + spread * luck)) for luck in (-1, 0, 0.5, 0.5))


def point(size: int = 8, speed: float = 1000, **changes: Any) -> Load:
    fields = {"passes": passes(speed)} | changes
    return sample.load("offline", size, speed, **fields)


def with_machine(one: Record, **changes: Any) -> Record:
    return dataclasses.replace(one, machine=dataclasses.replace(one.machine, **changes))


def store_samples(
    folder: Path, one: Record, served: Sequence[float], ids: Sequence[str] = IDS, **changes: Any
) -> None:
    scores = {"top-1": dict.fromkeys(per_sample.STAGES, tuple(served))}
    found = per_sample.SampleScores(one.case, one.build.digest, tuple(ids), scores, ())
    per_sample.write(dataclasses.replace(found, **changes), per_sample.path_of(one.case, folder))


def line_with(part: str, text: str) -> str:
    (found,) = [line for line in text.splitlines() if part in line]
    return found


def row(text: str, start: str) -> list[str]:
    (found,) = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in found.strip("|").split(" | ")]


# Setup.


def test_only_the_settings_that_differ_are_named_with_both_values(shown: Any) -> None:
    before = sample.record()
    after = dataclasses.replace(
        with_machine(before, versions={"python": "3.11.7", "torch": "2.14.0", "onnx": "1.22.0"}),
        deployment=dataclasses.replace(
            before.deployment, instances=2, preferred_batch_sizes=(), cuda_graphs=True
        ),
        build=dataclasses.replace(before.build, digest="77aa" * 16, build_time_s=1.0),
        serving=Serving("embedded", "2.61.0", "python", "system"),
    )
    text = shown([before], [after])
    assert line_with("- Setup: ", text) == (
        "- Setup: versions.torch 2.13.0 → 2.14.0; serving.triton 2.51.0 → 2.61.0; deployment.instances 1 → 2; "
        "deployment.preferred_batch_sizes 64 128 → none; deployment.cuda_graphs off → on; "
        "build.digest 0f3c → 77aa77aa77aa; versions.onnx none → 1.22.0"
    )
    assert row(text, CASE)[1].startswith("versions.torch, serving.triton, ")
    assert "machine" not in text.replace("the machine changed", "")


# Speed.


@pytest.mark.parametrize(
    ("speed", "spread", "verdict"),
    [
        (900, 0.01, "**slower**"),
        (1100, 0.01, "*faster*"),
        (1000, 0.01, "no difference shown"),
        (900, 0.12, "no difference shown"),
        (1100, 0.12, "no difference shown"),
    ],
)
def test_a_difference_of_speed_needs_an_interval_beside_one(
    speed: float, spread: float, verdict: str, shown: Any
) -> None:
    before = sample.record(loads=(point(),))
    after = sample.record(loads=(point(speed=speed, passes=passes(speed, spread=spread)),))
    cells = row(shown([before], [after]), "offline, batch 8")
    assert cells[1:3] == ["1000.0", f"{speed:.1f}"]
    assert float(cells[3].split()[0]) == pytest.approx(speed / 1000, abs=0.02)
    assert cells[6] == verdict


def test_a_difference_of_one_point_by_itself_is_none_among_forty(shown: Any) -> None:
    """About 3 % slower with an interval just beside one: shown where it is the only point, not among forty."""
    alike = tuple(point(batch=size) for size in range(9, 48))
    slow = point(speed=970, passes=passes(970, spread=0.015))
    alone = row(shown([sample.record(loads=(point(),))], [sample.record(loads=(slow,))]), "offline, batch 8")
    among = shown([sample.record(loads=(point(), *alike))], [sample.record(loads=(slow, *alike))])
    assert alone[6] == "**slower**"
    assert row(among, "offline, batch 8")[6] == "no difference shown"
    assert row(among, "offline, batch 8")[3] == alone[3]


def test_at_a_request_rate_speed_is_the_inverse_of_the_latency(shown: Any) -> None:
    """The schedule fixes the throughput."""

    def rated(latency_ms: float) -> Load:
        parts = [
            dataclasses.replace(one, latency_ms={"avg": latency_ms * (1 + n / 100)})
            for n, one in enumerate(passes(50))
        ]
        return sample.load("online", 0, 50, passes=tuple(parts), request_rate_per_s=50.0, arrivals="poisson")

    text = shown([sample.record(loads=(rated(2.0),))], [sample.record(loads=(rated(4.0),))])
    cells = row(text, "online, 50/s, poisson")
    assert cells[3].startswith("0.50 (")
    assert cells[6] == "**slower**"


def test_one_pass_has_no_interval_and_no_verdict(shown: Any) -> None:
    single = point(passes=(sample.one_pass(500),))
    text = shown([sample.record(loads=(point(),))], [sample.record(loads=(single,))])
    assert row(text, "offline, batch 8")[3::3] == ["-", "too few passes"]
    assert row(text, CASE)[3] == "1 too few passes of 1"


def test_marked_points_are_marked_with_their_reason(shown: Any) -> None:
    marked = point(marks=sample.marks("the client was saturated"))
    text = shown([sample.record(loads=(point(),))], [sample.record(loads=(marked,))])
    assert row(text, "offline, batch 8")[1:3] == ["1000.0*", "1000.0*"]
    assert "- offline, batch 8: B: the client was saturated" in text


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_case_that_fails_on_either_side_shows_no_speed(side: str, shown: Any) -> None:
    fine = sample.record(loads=(point(speed=31234.5),))
    wrong = sample.record(loads=(point(speed=31234.5),), accuracy=sample.failed_accuracy())
    text = shown([wrong], [fine]) if side == "before" else shown([fine], [wrong])
    assert "31234" not in text
    assert f"{'A' if side == 'before' else 'B'}: No throughput is shown: served top-1 93.1 % is below" in text
    change = "*passes now*" if side == "before" else "**passes no longer**"
    assert change in row(text, CASE)[2]
    assert row(text, CASE)[3] == "not shown"


# Accuracy.


def test_scores_of_samples_are_compared_in_pairs(shown: Any, folders: tuple[Path, Path]) -> None:
    one = sample.record()
    store_samples(folders[0], one, [1.0] * 490 + [0.0] * 10)
    store_samples(folders[1], one, [0.0] * 9 + [1.0] * 482 + [0.0] * 9)
    text = shown([one], [one])
    assert line_with("- top-1", text) == (
        "- top-1: 96.25 % → 96.25 %; of 500 samples in both 9 lost and 1 gained, difference -1.60 points "
        "(-3.22 to -0.29), p = 0.021: **worse** (lost `digit-0000`, `digit-0001`, `digit-0002`, `digit-0003`, "
        "`digit-0004` and 4 more; gained `digit-0490`)"
    )
    assert row(text, CASE)[2] == "**worse**"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (None, "B has no samples (CASE.samples.json) beside its record"),
        ({"digest": "of old"}, "the samples beside the record of B are of another build or ledger"),
        ({"scores": {"F1": {"served": (1.0,) * 500}}}, "B has no top-1 of each sample"),
        ({"ids": tuple(f"other-{number}" for number in range(500))}, "no sample is in both"),
    ],
    ids=["no file", "another build", "another metric", "other samples"],
)
def test_without_pairs_the_scores_stand_alone_and_the_reason_is_given(
    changes: Any, reason: str, shown: Any, folders: tuple[Path, Path]
) -> None:
    store_samples(folders[0], sample.record(), [1.0] * 500)
    if changes is not None:
        store_samples(folders[1], sample.record(), [1.0] * 500, **changes)
    text = shown([sample.record()], [sample.record(accuracy=sample.accuracy(sample.score(served=0.961)))])
    assert f"Not paired by sample, so that the scores alone are shown: {reason}: all cases." in text
    assert line_with("- top-1", text) == "- top-1: 96.25 % → 96.1 %"
    assert row(text, CASE)[2] == "not paired"
