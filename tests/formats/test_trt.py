"""TensorRT's names are those of its bindings, 10 and 11; a network has the types of the export it is made of."""

import dataclasses
import importlib
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.formats import trt
from fixtures.models import all_models
from fixtures.spec import ConversionJob, Model
from tests.formats import tensorrt_bindings
from tests.formats.tensorrt_bindings import MODULE, NAMES, SOURCES, VERSIONS, used_names

LISTED = json.loads(NAMES.read_text())
RTX_VERSION = "1.7.1.116"


@pytest.mark.parametrize("version", LISTED)
@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.parent.name)
def test_every_name_of_tensorrt_that_is_used_is_in_its_bindings(source: Path, version: str) -> None:
    names = LISTED[version]
    unknown = {one for one in used_names(source.read_text(), names) if one[1] not in names.get(one[0], {})}

    assert not unknown


@pytest.mark.contract
@pytest.mark.parametrize(("distribution", "version"), VERSIONS)
def test_the_listed_names_are_those_of_the_bindings_on_pypi(
    distribution: str, version: str, tmp_path: Path
) -> None:
    reason = tensorrt_bindings.why_not()
    if reason:
        pytest.skip(reason)
    try:
        found = tensorrt_bindings.names_of(distribution, version, tmp_path)
    except tensorrt_bindings.OutOfReachError as error:
        pytest.skip(f"needs PyPI: {error}")

    assert found == LISTED[f"{distribution} {version}"]


@pytest.fixture(scope="session")
def rtx(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """TensorRT for RTX: NVIDIA's parser, builder and bindings of the same names, whose packages have all their libraries
    on PyPI, and whose builder needs no GPU."""
    folder = tmp_path_factory.mktemp("rtx")
    for part in ("bindings", "libs"):
        try:
            tensorrt_bindings.download(f"tensorrt-rtx-cu13-{part}", RTX_VERSION, folder)
        except tensorrt_bindings.OutOfReachError as error:
            pytest.skip(f"needs PyPI: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return importlib.import_module("tensorrt_rtx_bindings")


@pytest.mark.contract
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("micro", [one for one in all_models() if one.micro], ids=lambda one: one.name)
def test_nvidia_s_parser_and_builder_make_an_engine_of_every_micro_model(
    micro: Model, precision: str, rtx: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, rtx)
    network = micro.load(None).network
    job = ConversionJob(micro, network, precision, None, "cpu", 4, None, lambda _step: None, tf32=False)
    trt.convert(job, tmp_path / "model.plan")

    assert (tmp_path / "model.plan").stat().st_size > 1 << 20


class Player:
    """Plays TensorRT's objects: writes down what it is called with, and hands out others like itself."""

    def __init__(self, calls: dict[str, Any], name: str = "", **answers: Any) -> None:
        self.calls, self.name, self.answers = calls, name, answers

    def __getattr__(self, name: str) -> Any:
        if name in self.answers:
            return self.answers[name]

        def call(*arguments: Any) -> Any:
            self.calls.setdefault(name, []).append(arguments)
            return Player(self.calls, name, **self.answers)

        return call


def play(monkeypatch: pytest.MonkeyPatch, *, parses: bool = True, builds: bool = True) -> dict[str, Any]:
    """A TensorRT on a machine without it; returns what it is asked for, by the calls' names."""
    calls: dict[str, Any] = {}
    answers: dict[str, Any] = {"build_serialized_network": lambda *_: b"engine" if builds else None}

    def parse(path: str) -> bool:
        import onnx

        calls["types"] = {
            tensor.data_type for tensor in onnx.load(path).graph.initializer if len(tensor.dims) > 1
        }
        calls["inputs"] = {one.type.tensor_type.elem_type for one in onnx.load(path).graph.input}
        return parses

    parser = Player(calls, parse_from_file=parse, num_errors=1, get_error=lambda _index: "no such operator")
    module = SimpleNamespace(
        __spec__=ModuleSpec(MODULE, None),  # torch.export looks for it
        Logger=type(
            "Logger", (Player,), {"WARNING": 1, "__init__": lambda self, *_: Player.__init__(self, calls)}
        ),
        Builder=lambda _logger: Player(calls, **answers),
        OnnxParser=lambda *_: parser,
        NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1),
        BuilderFlag=SimpleNamespace(TF32=7),
        MemoryPoolType=SimpleNamespace(WORKSPACE="workspace"),
    )
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    return calls


@pytest.mark.parametrize(("precision", "element"), [("fp32", np.float32), ("fp16", np.float16)])
def test_the_network_is_strongly_typed_and_of_the_precision_s_export(
    precision: str, element: Any, job: ConversionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import onnx

    calls = play(monkeypatch)
    trt.convert(dataclasses.replace(job, precision=precision), tmp_path / "model.plan")

    assert calls["create_network"] == [(1 << 1,)]
    assert calls["types"] == {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(element))}
    assert calls["inputs"] == {onnx.TensorProto.FLOAT}, "clients send FP32, whatever the precision"
    shape = job.model.inputs[0].shape
    assert calls["set_shape"] == [(job.model.inputs[0].name, (1, *shape), (8, *shape), (8, *shape))]
    assert [path.name for path in tmp_path.iterdir()] == ["model.plan"]


@pytest.mark.parametrize("tf32", [True, False, None])
def test_the_builder_computes_in_tf32_as_is_its_default_unless_it_is_told_not_to(
    tf32: bool | None, job: ConversionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = play(monkeypatch)
    monkeypatch.setattr(trt.onnx, "export", lambda _job, path: path.touch())  # an empty graph
    trt.convert(dataclasses.replace(job, precision="fp32", tf32=tf32), tmp_path / "model.plan")

    assert calls.get("clear_flag", []) == (
        [(sys.modules["tensorrt"].BuilderFlag.TF32,)] if tf32 is False else []
    )


@pytest.mark.parametrize("fault", [{"parses": False}, {"builds": False}])
def test_what_tensorrt_refuses_is_said_and_leaves_no_export_behind(
    fault: dict[str, bool], job: ConversionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play(monkeypatch, **fault)

    with pytest.raises(ProofError, check=lambda error: error.where == job.model.name):
        trt.convert(job, tmp_path / "model.plan")
    assert not list(tmp_path.iterdir())
