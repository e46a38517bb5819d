"""The end of a run by unusable input."""

from pathlib import Path

import pytest

from tests.helpers import run_pytest

INPUTS = """\
import pytest

from tritonproof.base.errors import InputError


@pytest.mark.step("accuracy")
@pytest.mark.parametrize("number", [1, 2])
def test_of_case(case, number):
    raise InputError("no such sample", where="samples.csv", fix="look")


@pytest.mark.parametrize("number", [1, 2])
def test_alone(number):
    raise InputError(f"no such sample {number}", where="samples.csv", fix="look")
"""


@pytest.mark.parametrize(("selected", "failed"), [("cpu-resnet50-micro-onnx-fp32", 1), ("alone", 2)])
def test_unusable_input_of_a_case_ends_the_run(selected: str, failed: int, tmp_path: Path) -> None:
    """Other tests fail alone."""
    file = tmp_path / "a_test.py"
    file.write_text(INPUTS)

    done = run_pytest(str(file), "-p", "conftest", "-k", selected, "--results", str(tmp_path / "results"))

    assert f"{failed} failed" in done.stdout, done.stdout + done.stderr
    assert "samples.csv" in done.stdout
