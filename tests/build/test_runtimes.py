"""The folder in which ONNX Runtime caches engines: one for each build, private to the user."""

import stat
from pathlib import Path

import pytest

from fixtures.build import runtimes
from fixtures.build.runtimes import engine_folder
from fixtures.errors import SetupError
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.host import nvml, scratch
from fixtures.host.targets import recognise
from fixtures.spec import Case
from tests.build.conversions import MICRO, ONNX

CASE = Case(recognise("NVIDIA A100"), MICRO, ONNX, "trt", "fp16")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "user_folder", lambda: tmp_path / "tritonproof")


def test_each_build_has_a_lasting_engine_folder() -> None:
    """Engines are named after a graph's nodes, so engines of other weights would be confused."""
    folder = Path(engine_folder(CASE, "0f3c"))
    (folder / "kernel.engine").touch()
    assert (Path(engine_folder(CASE, "0f3c")) / "kernel.engine").exists()
    assert not list(Path(engine_folder(CASE, "77aa")).iterdir())


def test_each_tensorrt_and_cuda_version_has_an_engine_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime fails on an engine of another version, and does not rebuild it."""
    folders = set()
    for version in ("10.13.3.9", "10.14.1.48"):
        monkeypatch.setattr(runtimes, "installed", lambda version=version: TensorRT("tensorrt-cu13", version))
        folders.add(engine_folder(CASE, "0f3c"))
    monkeypatch.setattr(nvml, "cuda_of_driver", lambda: 14)
    folders |= {engine_folder(CASE, "0f3c"), engine_folder(CASE, "0f3c", tensorrt="10.5.0.18")}
    assert len(folders) == 4


def test_engine_folder_is_private_to_user(tmp_path: Path) -> None:
    """An engine holds code, which its reader runs."""
    folder = Path(engine_folder(CASE, "0f3c"))
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    folder.with_name(folder.name.replace("0f3c", "77aa")).symlink_to(tmp_path)
    with pytest.raises(SetupError):
        engine_folder(CASE, "77aa")


def test_container_engines_stay_in_the_container(tmp_path: Path) -> None:
    """The container mounts models read-only, and no other folder. ONNX Runtime creates only the last folder
    of the path: every image must have its parent."""
    folder = Path(engine_folder(CASE, "0f3c", in_container=True))
    assert folder.parent == Path("/tmp")
    assert folder.name.endswith("0f3c")
    assert not list(tmp_path.iterdir())
