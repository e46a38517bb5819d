"""Ranks beside other formats, the cost per inference and the fastest point."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tests import sample_records
from tests.sample_records import AS_FAST, FAST, HIDDEN, ONNX, SLOW, in_turns
from tritonproof.record import Record
from tritonproof.reports import derived
from tritonproof.reports.publishable import publishable

OTHER_MODEL = in_turns("pt2", 1.5, 1.4, 1.6, model="nnunet")
TWO_GPUS = in_turns("trt", 1.45, 1.38, 1.52, gpus=2)
TOO_WIDE = in_turns("trt", 1.45, 0.5, 2.5)
BEST = sample_records.measured("online", 64, 9000.0)
STALE = structs.replace(FAST, points=(*FAST.points, BEST))
WITHOUT_TURNS = sample_records.record(efficiency=(sample_records.efficiency("online", 32),))
WRONG = structs.replace(ONNX, accuracy=sample_records.failed_accuracy())
ELSEWHERE = structs.replace(FAST, machine=structs.replace(FAST.machine, cores=4))
REBUILT = structs.replace(ONNX, build=structs.replace(ONNX.build, digest="another"))
OF_EARLIER_BUILD = in_turns("pt2", 1.5, 1.4, 1.6, digest=ONNX.build.digest)
REDEPLOYED = structs.replace(ONNX, deployment=structs.replace(ONNX.deployment, instances=2))
OTHER_TRANSPORT = structs.replace(FAST, serving=structs.replace(sample_records.SERVING, shared_memory="cuda"))
OTHER_SERVER = structs.replace(FAST, serving=structs.replace(sample_records.SERVING, triton="2.61.0"))
PYTORCH = structs.replace(sample_records.SERVING, backend="pytorch", versions={"torch": "2.12.0"})
TF32, EQUAL = structs.replace(FAST.deployment, tf32=True), structs.replace(FAST.machine, gpu_uuids=("GPU-9",))
COMPARABLE = structs.replace(FAST, serving=PYTORCH, deployment=TF32, machine=EQUAL, build=REBUILT.build)

RANKED: dict[str, tuple[Sequence[Record], Sequence[Record], Sequence[int | None]]] = {
    "by intervals": ((SLOW, ONNX, COMPARABLE, AS_FAST), (COMPARABLE, AS_FAST, ONNX, SLOW), (1, 1, 3, 4)),
    "by model": ((SLOW, OTHER_MODEL, ONNX), (ONNX, SLOW, OTHER_MODEL), (1, 2, 1)),
    "by number of GPUs": ((SLOW, TWO_GPUS, ONNX), (ONNX, SLOW, TWO_GPUS), (1, 2, 1)),
    "without turns": ((WITHOUT_TURNS, SLOW), (SLOW, WITHOUT_TURNS), (1, None)),
    "not shown": ((ONNX, TOO_WIDE), (TOO_WIDE, ONNX), (None, 1)),
    "faster": ((ONNX, HIDDEN), (HIDDEN, ONNX), (None, 2)),
    "stale": ((STALE, ONNX), (ONNX, STALE), (1, None)),
    "a wrong reference": ((WRONG, SLOW, FAST), (WRONG, SLOW, FAST), (None, None, None)),
    "another machine": ((SLOW, ONNX, ELSEWHERE), (ONNX, SLOW, ELSEWHERE), (1, 2, None)),
    "another server": ((SLOW, ONNX, OTHER_SERVER), (ONNX, SLOW, OTHER_SERVER), (1, 2, None)),
    "another transport": ((SLOW, ONNX, OTHER_TRANSPORT), (ONNX, SLOW, OTHER_TRANSPORT), (1, 2, None)),
    "a reference built anew": ((OF_EARLIER_BUILD, REBUILT), (REBUILT, OF_EARLIER_BUILD), (1, None)),
    "its build": ((OF_EARLIER_BUILD, ONNX), (OF_EARLIER_BUILD, ONNX), (1, 2)),
    "a reference with other settings": ((FAST, REDEPLOYED), (REDEPLOYED, FAST), (1, None)),
    "two machines without the reference": ((SLOW, ELSEWHERE), (ELSEWHERE, SLOW), (None, None)),
}


@pytest.mark.parametrize(("records", "order", "ranks"), RANKED.values(), ids=RANKED.keys())
def test_formats_rank_by_disjoint_intervals(
    records: Sequence[Record], order: Sequence[Record], ranks: Sequence[int | None]
) -> None:
    seen = sample_records.seen(*records)
    assert [record.name for record in derived.ranked(seen)] == [record.name for record in order]
    assert [derived.ranks(seen).get(record.name) for record in order] == list(ranks)


POINT = sample_records.measured("offline", 8, 1000.0)  # at a price of 3.6 per hour, a million cost 1


def priced(price: float | None = 3.6, **changes: Any) -> Record:
    return sample_records.record(points=(POINT,), price_per_hour=price, **changes)


SHARE = sample_records.score(served=0.8, limits=())
ERROR = sample_records.score(better="lower", served=0.012, limits=())


@pytest.mark.parametrize(
    ("record", "cost", "share"),
    [
        (priced(accuracy=sample_records.accuracy(SHARE)), 1.25, 0.8),
        (priced(accuracy=sample_records.accuracy(ERROR)), 1.0, None),
        (sample_records.random_weights(points=(POINT,), price_per_hour=3.6), 1.0, None),
        (priced(None, accuracy=sample_records.accuracy(SHARE)), None, 0.8),
    ],
    ids=["a share", "an error", "random weights", "no price"],
)
def test_cost_is_per_correct_inference(record: Record, cost: float | None, share: float | None) -> None:
    shown = publishable(record)
    assert derived.cost_per_million(shown, POINT) == pytest.approx(cost)
    assert derived.correct_share(shown) == share


def test_fastest_point_is_one_at_a_rate_only_if_no_other_was_measured() -> None:
    at_rate = sample_records.at_rate(9200.0, 9200.0)
    assert derived.fastest_point(publishable(sample_records.record(points=(at_rate, BEST)))) == BEST
    assert derived.fastest_point(publishable(sample_records.record(points=(at_rate,)))) == at_rate
