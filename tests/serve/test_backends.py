"""Which servers have a format's own backend, and which serve it by the suite's runtime."""

import dataclasses
from pathlib import Path

import pytest

from fixtures.errors import NotAvailableError
from fixtures.formats import all_formats
from fixtures.serve.backends import serves_natively
from fixtures.serve.choice import IMAGE, Choice

FORMAT = next(one for one in all_formats() if one.backend == "onnxruntime")


def test_a_native_backend_is_preferred_to_the_suite_s_runtime(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    assert serves_natively(Choice("local", "t"), tmp_path, FORMAT)


def test_the_suite_s_runtime_serves_where_only_the_python_backend_is(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "triton_python_backend_stub").touch()
    assert not serves_natively(Choice("local", "t"), tmp_path, FORMAT)


def test_a_format_without_a_native_backend_is_never_served_by_one(tmp_path: Path) -> None:
    format_ = dataclasses.replace(FORMAT, backend="")
    for name in ("pytorch", "python"):
        (tmp_path / name).mkdir()
    (tmp_path / "python" / "triton_python_backend_stub").write_bytes(b"")

    assert not serves_natively(Choice("local", "t"), tmp_path, format_)
    with pytest.raises(NotAvailableError, match="onnx needs a server with the suite's packages"):
        serves_natively(Choice("docker", "image"), None, format_)


@pytest.mark.parametrize(("others", "named"), [((), "none"), (("pytorch", "identity"), "identity, pytorch")])
def test_a_server_with_neither_is_not_available_and_lists_what_it_has(
    tmp_path: Path, others: tuple[str, ...], named: str
) -> None:
    for name in others:
        (tmp_path / name).mkdir()
    with pytest.raises(
        NotAvailableError, match=f"needs Triton's onnxruntime or python backend; .* has {named}$"
    ):
        serves_natively(Choice("local", "t"), tmp_path, FORMAT)


def test_containers_serve_natively_and_the_embedded_server_does_not(tmp_path: Path) -> None:
    assert serves_natively(Choice("docker", IMAGE), None, FORMAT)
    assert not serves_natively(Choice("embedded"), tmp_path, FORMAT)
