"""The format that all of a model are set beside: which it is, and when it may be."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.build.repository import BuiltModel
from fixtures.cases import cases_of, reference_of
from fixtures.efficiency.reference import reference_from
from fixtures.host.targets import EVERY_TARGET
from fixtures.spec import Case, Deployment
from tests import samples

RECORD = samples.record()
DEPLOYMENT = Deployment(128, 1, (64, 128), 1, cuda_graphs=False, warmup=True)


def case_of(name: str) -> Case:
    return next(case for target in EVERY_TARGET for case in cases_of(target) if str(case) == name)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("cpu-resnet50-micro-ts-trace-fp32", "cpu-resnet50-micro-onnx-fp32"),
        ("cpu-resnet50-micro-onnx-fp32", "cpu-resnet50-micro-onnx-fp32"),
        ("a100-resnet50-onnx-fp32", "a100-resnet50-onnx-trt-fp16"),
    ],
)
def test_the_reference_is_what_was_published_else_onnx_in_fp32(name: str, reference: str) -> None:
    assert str(reference_of(case_of(name))) == reference


def test_all_formats_of_a_model_have_one_reference() -> None:
    for target in EVERY_TARGET:
        found: dict[str, set[str]] = {}
        for case in cases_of(target):
            found.setdefault(case.model.name, set()).add(str(reference_of(case)))
        assert all(len(names) == 1 for names in found.values())


def found(**changes: Any) -> Any:
    build = BuiltModel(
        case_of("a40-resnet50-onnx-trt-fp16"), Path("folder"), "0f3c", "random", 1.0, 1.0, reused=True
    )
    record = structs.replace(RECORD, **changes)
    return reference_from(record, build, RECORD.machine, DEPLOYMENT)


def test_a_reference_is_taken_at_its_best_point() -> None:
    best = found()
    assert best is not None
    assert (best.load.scenario, best.load.concurrency) == ("online", 32)


@pytest.mark.parametrize(
    "changes",
    [
        {"conversion": samples.failed_conversion()},
        {"conversion": None},
        {"accuracy": samples.failed_accuracy()},
        {"loads": ()},
        {"machine": structs.replace(RECORD.machine, cores=3)},
        {"build": structs.replace(RECORD.build, digest="77aa")},
        {"deployment": structs.replace(RECORD.deployment, instances=2)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_reference_that_is_wrong_or_of_something_else_is_none(changes: dict[str, Any]) -> None:
    assert found(**changes) is None
