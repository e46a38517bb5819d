"""What belongs to a model is made once for all of its cases, and gone before the next model's."""

import re
from pathlib import Path

from tests.collecting import run_pytest

TESTS = """\
import gc
import weakref

import pytest

ALIVE = []


@pytest.mark.stage("conversion")
def test_first(case, weights, by_framework):
    gc.collect()
    ALIVE[:] = [one for one in ALIVE if one() is not None]
    assert all(one() is weights for one in ALIVE), "the weights of another model are in memory"
    ALIVE.append(weakref.ref(weights))
    assert len(by_framework.decisions) > 0


@pytest.mark.stage("accuracy")
def test_second(case, model, target, deployment, weights, samples):
    assert (case.model, case.target) == (model, target)
    assert ALIVE[-1]() is weights
    assert len(samples) > 0
"""


def test_weights_and_the_frameworks_answers_are_made_once_for_all_cases_of_a_model(tmp_path: Path) -> None:
    file = tmp_path / "test_of_models.py"
    file.write_text(TESTS)
    words = "cpu and micro and onnx and (resnet50-micro or fastpitch)"

    done = run_pytest(str(file), "-p", "conftest", "-k", words)

    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"(?m)^ +(\S+): load weights", done.stdout)) == [
        "fastpitch-micro",
        "resnet50-micro",
    ]
    assert re.search(r"\b6 passed", done.stdout), "ONNX in FP32 and INT8 of one model, in FP32 of the other"
