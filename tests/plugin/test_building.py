"""A run makes weights and framework answers once per model and releases them before the next model."""

import re
from pathlib import Path

import pytest

from fixtures.formats import trt
from fixtures.host.targets import TARGETS, present
from tests.faults.classifier import write_two
from tests.helpers import Collect, run_pytest

TESTS = """\
import gc
import weakref

import pytest

ALIVE = []


@pytest.mark.stage("conversion")
def test_first(run):
    weights, by_framework = run.of_model.weights, run.of_model.by_framework
    gc.collect()
    ALIVE[:] = [one for one in ALIVE if one() is not None]
    assert all(one() is weights for one in ALIVE), "the weights of another model are in memory"
    ALIVE.append(weakref.ref(weights))
    assert len(by_framework.decisions) > 0


@pytest.mark.stage("accuracy")
def test_second(run):
    assert ALIVE[-1]() is run.of_model.weights
    assert len(run.of_model.samples) > 0
"""


def test_weights_are_loaded_once_per_model(tmp_path: Path) -> None:
    file = tmp_path / "test_of_models.py"
    file.write_text(TESTS)
    folders = (f"--model-repos={tmp_path / 'models'}", f"--results={tmp_path / 'results'}")
    words = "onnx and (left and (fp32 or int8) or right and fp32)"

    done = run_pytest(str(file), "-p", "conftest", *write_two(tmp_path), "-k", words, *folders)

    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"(?m)^ +(\S+): load weights$", done.stdout)) == ["left", "right"]
    assert re.search(r"\b6 passed", done.stdout), "both precisions of one model, one of the other"


@pytest.mark.parametrize(
    ("given", "larger"),
    [
        ("preferred_batch_sizes=8+64+16", 64),
        ("max_batch_size=2,preferred_batch_sizes=4", 4),
        ("preferred_batch_sizes=16+32", None),
        ("max_batch_size=2", None),  # the model's own preferred sizes are adapted to it
    ],
)
def test_preferred_batch_above_maximum_is_refused(given: str, larger: int | None, collect: Collect) -> None:
    collected = collect(
        "--target", "cpu", "-k", "resnet50-micro and onnx and accuracy", "--deployment", given
    )

    assert (collected.status == pytest.ExitCode.USAGE_ERROR) == (larger is not None), collected.text
    if larger is not None:
        assert "where: --deployment preferred_batch_sizes" in collected.text
        assert f"max_batch_size={larger}" in collected.text


def test_convert_only_for_absent_gpu_tries_cpu_formats(tmp_path: Path) -> None:
    absent = next(target for target in reversed(TARGETS) if target not in present())
    words = "resnet50-micro and fp16 and (ts-trace or (trt and not onnx))"
    folders = (f"--model-repos={tmp_path / 'models'}", f"--results={tmp_path / 'results'}")

    done = run_pytest("benchmarks", "--convert-only", "--target", absent.name, "-k", words, *folders)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1 passed, 1 skipped", done.stdout), done.stdout
    assert f"SKIPPED [1] benchmarks:1: {trt.FORMAT.built_on_gpu}: needs {absent.label}" in done.stdout
    assert not list(tmp_path.rglob("*.pt")), "a run on the GPU would not reuse it"
