"""Which servers have a format's own backend, and which serve it by the suite's runtime."""

import dataclasses
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.errors import NotAvailableError, ProofError
from fixtures.formats import all_formats
from fixtures.host.targets import CPU, recognise
from fixtures.models import all_models
from fixtures.run.case_run import CaseRun
from fixtures.run.model_run import ModelRun
from fixtures.serve.backends import backend_variables, local_backends, serves_natively
from fixtures.serve.command import environment_of
from fixtures.serve.server_spec import IMAGE, Choice
from fixtures.spec import Case
from tests.helpers import settings as settings_of
from tests.serve.programs import script

FORMATS = {one.mnemonic: one for one in all_formats()}
MODELS = {one.name: one for one in all_models()}
FORMAT = FORMATS["onnx"]


def installed(folder: Path, *backends: str) -> Choice:
    """A local Triton with these backends, whose files are empty."""
    program = script(folder / "bin" / "tritonserver", "exit 0")
    for name in backends:
        (folder / "backends" / name).mkdir(parents=True)
        (folder / "backends" / name / f"libtriton_{name}.so").touch()
        if name == "python":
            (folder / "backends" / name / "triton_python_backend_stub").touch()
    return Choice("local", str(program))


def test_a_native_backend_is_preferred_to_the_suite_s_runtime(tmp_path: Path) -> None:
    choice = installed(tmp_path, "onnxruntime", "python")
    assert serves_natively(choice, tmp_path / "backends", FORMAT)


def test_the_suite_s_runtime_serves_where_only_the_python_backend_is(tmp_path: Path) -> None:
    choice = installed(tmp_path, "python")
    assert not serves_natively(choice, tmp_path / "backends", FORMAT)


def test_a_backend_whose_library_is_missing_serves_nothing(tmp_path: Path) -> None:
    choice = installed(tmp_path, "onnxruntime", "python")
    (tmp_path / "backends" / "onnxruntime" / "libtriton_onnxruntime.so").unlink()
    assert not serves_natively(choice, tmp_path / "backends", FORMAT)


def test_a_format_without_a_native_backend_is_never_served_by_one(tmp_path: Path) -> None:
    format_ = dataclasses.replace(FORMAT, backend="")
    installed(tmp_path, "pytorch", "python")
    tmp_path /= "backends"

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


def test_backends_are_looked_for_beside_the_program_else_where_the_server_itself_would(
    tmp_path: Path,
) -> None:
    default = tmp_path / "opt"
    default.mkdir()
    choice = installed(tmp_path / "moved")
    assert local_backends(choice.detail, default) == default
    (tmp_path / "moved" / "backends").mkdir()
    assert local_backends(choice.detail, default) == tmp_path / "moved" / "backends"


# --- the environment of a local server -----------------------------------------------------------------------


def keeps_freed_memory(choice: Choice, model: str, format_: str, target: str | None = None) -> bool:
    """Whether malloc is told to keep what is freed, as model_repos/runtimes/pytorch.py tells it."""
    where = CPU if target is None else recognise(target)
    variables = backend_variables(choice, Case(where, MODELS[model], FORMATS[format_], None, "fp32"))
    if not variables:
        return False
    assert variables == {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "2147483647"}
    return True


def test_freed_memory_is_kept_where_pytorch_s_own_backend_serves_on_a_cpu_as_in_the_runtime(
    tmp_path: Path,
) -> None:
    choice = installed(tmp_path, "onnxruntime", "pytorch", "python")
    assert keeps_freed_memory(choice, "resnet50-micro", "ts-trace")
    assert keeps_freed_memory(choice, "bert-dist4l", "ts-script")
    assert not keeps_freed_memory(choice, "nnunet", "ts-trace"), "the runtime gives it back too"
    assert not keeps_freed_memory(choice, "resnet50-micro", "onnx"), "it has an arena of its own"
    assert not keeps_freed_memory(choice, "resnet50-micro", "ts-trace", "NVIDIA A100")
    assert not keeps_freed_memory(choice, "resnet50-micro", "pt2"), "the runtime serves it, and tells malloc"
    for other in (installed(tmp_path / "other", "python"), Choice("embedded"), Choice("remote", "host:8001")):
        assert not keeps_freed_memory(other, "resnet50-micro", "ts-trace")


def test_the_server_of_a_case_is_started_with_the_malloc_of_the_runtime(tmp_path: Path) -> None:
    choice = installed(tmp_path, "pytorch")
    script(Path(choice.detail), 'echo "malloc $MALLOC_MMAP_MAX_ $MALLOC_TRIM_THRESHOLD_"; exit 1')
    settings = settings_of(triton=f"local:{choice.detail}", results=str(tmp_path / "results"))
    case = Case(CPU, MODELS["resnet50-micro"], FORMATS["ts-trace"], None, "fp32")
    with ModelRun(case.model, CPU, settings) as of_model, CaseRun(case, of_model) as run:
        vars(run)["build"] = SimpleNamespace(folder=tmp_path / "build")
        with pytest.raises(ProofError, match="malloc 0 2147483647"):
            assert run.server


def test_a_local_python_backend_finds_this_python_and_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fixtures.serve.wheels.libpython", lambda: Path("/of/python/lib"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/triton/lib")
    with_python, without = installed(tmp_path, "python"), installed(tmp_path / "native", "onnxruntime")

    environment = environment_of(with_python, "cpu", tmp_path)
    assert environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert environment["LD_LIBRARY_PATH"] == "/of/triton/lib:/of/python/lib", "the server's own come first"
    environment = environment_of(without, "cpu", tmp_path)
    assert (environment["PATH"], environment["LD_LIBRARY_PATH"]) == (os.environ["PATH"], "/of/triton/lib")
