"""What a server's own backends cannot serve is a skip with the reason."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.errors import NotAvailableError
from fixtures.formats import onnx, tf_savedmodel, trt
from fixtures.frameworks import tensorrt
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.host import machine
from fixtures.host.targets import CPU
from fixtures.serve.backends import backend_library
from fixtures.serve.releases import Image
from fixtures.serve.supported import check_supported
from fixtures.spec import Case, Format
from tests.build.conversions import MICRO


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine builds engines with TensorRT 10.16.1.11."""
    monkeypatch.setattr(tensorrt, "installed", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))


def container(version: str | None = None, release: str | None = None) -> Any:
    """A container whose image says that it has this TensorRT, and is of this release."""
    image = Image("image", release=release, tensorrt=version)
    return SimpleNamespace(kind="docker", backends=None, image=image, version="")


def case_of(format_: Format, accelerator: str | None = None, gpus: int = 1) -> Case:
    return Case(dataclasses.replace(CPU, device="cuda"), MICRO, format_, accelerator, "fp32", gpus)


@pytest.mark.parametrize(
    ("version", "package"),
    [("10.5.0.18", "tensorrt-cu12==10.5.0.*"), ("10.14.1.48", "tensorrt-cu13==10.14.1.*")],
)
def test_a_container_s_other_tensorrt_is_a_skip_that_names_it(version: str, package: str) -> None:
    with pytest.raises(NotAvailableError) as caught:
        check_supported(container(version), case_of(trt.FORMAT))
    assert version in caught.value.what
    assert package in str(caught.value.fix)


@pytest.mark.parametrize("version", ["10.16.1.11", None])
def test_the_same_tensorrt_reads_the_engine_and_an_unknown_one_is_asked(version: str | None) -> None:
    check_supported(container(version), case_of(trt.FORMAT))


def test_other_formats_are_read_by_any_tensorrt() -> None:
    check_supported(container("10.5.0.18"), case_of(onnx.FORMAT))


@pytest.mark.parametrize(
    ("release", "format_", "accelerator", "gpus", "capability", "is_served"),
    [
        ("25.02", tf_savedmodel.FORMAT, None, 1, (8, 0), True),
        ("25.03", tf_savedmodel.FORMAT, None, 1, (8, 0), False),
        ("26.08", tf_savedmodel.FORMAT, None, 1, (8, 0), False),
        ("99.01", tf_savedmodel.FORMAT, None, 1, (8, 0), True),  # it is not known, and the server is asked
        ("25.03", onnx.FORMAT, "trt", 1, (8, 0), True),
        ("25.03", onnx.FORMAT, "trt", 2, (8, 0), False),
        ("25.03", onnx.FORMAT, None, 2, (8, 0), True),
        ("25.04", onnx.FORMAT, "trt", 2, (8, 0), True),
        ("24.10", onnx.FORMAT, "trt", 1, (7, 0), False),
        ("24.10", onnx.FORMAT, None, 1, (7, 0), True),
        ("24.10", onnx.FORMAT, "trt", 1, (7, 5), True),
    ],
)
def test_what_a_release_cannot_serve_is_a_skip(
    release: str,
    format_: Format,
    accelerator: str | None,
    gpus: int,
    capability: tuple[int, int],
    is_served: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "compute_capability", lambda: capability)
    server, case = container(release=release), case_of(format_, accelerator, gpus)
    if is_served:
        check_supported(server, case)
        return
    with pytest.raises(NotAvailableError) as caught:
        check_supported(server, case)
    assert release in caught.value.what


def test_a_local_server_reads_it_with_the_image_s_tensorrt_where_it_has_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = SimpleNamespace(kind="local", backends=tmp_path, image=None, version="2.51.0")
    library = backend_library(tmp_path, "tensorrt")
    library.parent.mkdir()
    library.touch()
    check_supported(server, case_of(trt.FORMAT))
    monkeypatch.setenv("TRT_VERSION", "10.5.0.18")
    with pytest.raises(NotAvailableError):
        check_supported(server, case_of(trt.FORMAT))

    library.unlink()
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "triton_python_backend_stub").touch()
    check_supported(server, case_of(trt.FORMAT))
