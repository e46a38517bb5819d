"""--models: tests of models outside the suite."""

from pathlib import Path

import pytest

from fixtures.models import all_models
from tests.helpers import Collect
from tests.model_files.files import write


def models(names: list[str]) -> set[str]:
    """The models, of the suite or of these tests, in the names of tests."""
    known = [*(model.name for model in all_models()), "mine"]
    return {model for model in known for name in names if f"[cpu-{model}-onnx" in name}


def test_only_given_models_run_unless_others_are_named(tmp_path: Path, collect: Collect) -> None:
    file = write(tmp_path / "mine.py", "mine")
    base = ("--models", str(file), "--target", "cpu")

    assert models(collect(*base).names) == {"mine"}
    assert models(collect(*base, "-k", "onnx and fp32").names) == {"mine"}
    collected = collect(*base, "-k", "onnx and fp32 and (mine or resnet50-micro)")
    assert models(collected.names) == {"mine", "resnet50-micro"}
    assert "mine" not in models(collect("--target", "cpu").names)


def test_large_given_models_run_on_cpu_and_gpu_targets(tmp_path: Path, collect: Collect) -> None:
    file = write(tmp_path / "mine.py", "mine", micro=False)

    assert models(collect("--models", str(file), "--target", "cpu").names) == {"mine"}
    collected = collect("--models", str(file), "--target", "a100")
    assert any("a100-mine-onnx-fp32" in name for name in collected.names)


@pytest.mark.parametrize("name", ["cpu", "mine-a100"])
def test_name_that_selects_hardware_is_refused(name: str, tmp_path: Path, collect: Collect) -> None:
    collected = collect("--models", str(write(tmp_path / "mine.py", name)))

    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert "where: --models" in collected.text
    assert name not in {model.name for model in all_models()}


def test_broken_model_file_is_a_usage_error(tmp_path: Path, collect: Collect) -> None:
    (tmp_path / "mine.py").write_text("\n\n1 / 0\n")

    collected = collect("--models", str(tmp_path / "mine.py"))

    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert f"{tmp_path / 'mine.py'}:3" in collected.text
