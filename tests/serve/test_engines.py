"""An engine that the server's TensorRT would refuse is a skip that names the version wanted."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.errors import NotAvailableError
from fixtures.formats import onnx, trt
from fixtures.frameworks import tensorrt
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.serve.backends import backend_library
from fixtures.serve.engines import check_engine


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine builds engines with TensorRT 10.16.1.11."""
    monkeypatch.setattr(tensorrt, "installed", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))


def container(version: str | None) -> Any:
    """A container whose image says that it has this TensorRT."""
    return SimpleNamespace(kind="docker", backends=None, image=SimpleNamespace(tensorrt=version))


def test_a_container_s_other_tensorrt_is_a_skip_that_names_it() -> None:
    with pytest.raises(NotAvailableError, match=r"(?s)TensorRT is 10\.5\.0\.18.*tensorrt-cu12==10\.5\.0\.\*"):
        check_engine(container("10.5.0.18"), trt.FORMAT)
    with pytest.raises(NotAvailableError, match=r"tensorrt-cu13==10\.14\.1\.\*"):  # PyPI has it for CUDA 13
        check_engine(container("10.14.1.48"), trt.FORMAT)


@pytest.mark.parametrize("version", ["10.16.1.11", None])
def test_the_same_tensorrt_reads_the_engine_and_an_unknown_one_is_asked(version: str | None) -> None:
    check_engine(container(version), trt.FORMAT)


def test_other_formats_are_read_by_any_tensorrt() -> None:
    check_engine(container("10.5.0.18"), onnx.FORMAT)


def test_a_local_server_reads_it_with_the_image_s_tensorrt_where_it_has_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = SimpleNamespace(kind="local", backends=tmp_path, image=None)
    library = backend_library(tmp_path, "tensorrt")
    library.parent.mkdir()
    library.touch()
    check_engine(server, trt.FORMAT)
    monkeypatch.setenv("TRT_VERSION", "10.5.0.18")
    with pytest.raises(NotAvailableError, match=r"10\.5\.0\.18"):
        check_engine(server, trt.FORMAT)

    library.unlink()
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "triton_python_backend_stub").touch()
    check_engine(server, trt.FORMAT)
