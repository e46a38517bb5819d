"""Conversion to TensorRT uses names that the bindings of 10 and 11 have, and the types of its export."""

import dataclasses
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from tests.formats import tensorrt_bindings
from tests.formats.converting import job_of
from tests.formats.tensorrt_bindings import LISTED, MODULE, VERSIONS, Player
from tritonproof.base.errors import ProofError
from tritonproof.formats import onnx as format_onnx
from tritonproof.formats import trt
from tritonproof.models import all_models
from tritonproof.spec import ConversionJob, NetworkModel


@pytest.mark.contract
@pytest.mark.parametrize(("distribution", "version"), VERSIONS)
def test_listed_names_match_published_bindings(distribution: str, version: str, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, for the empty libraries that the bindings are imported with")
    names = tensorrt_bindings.names_of(distribution, version, tmp_path)
    assert names == LISTED[f"{distribution} {version}"]


@pytest.mark.contract
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "micro", [model for model in all_models() if model.micro], ids=lambda model: model.name
)
def test_nvidia_parser_builds_engine_of_every_micro_model(
    micro: NetworkModel, precision: str, rtx: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, rtx)
    trt.convert(job_of(micro, precision=precision, max_batch_size=4, tf32=False), tmp_path / "model.plan")
    assert (tmp_path / "model.plan").stat().st_size > 1 << 20


@pytest.mark.contract
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "model",
    [model for model in all_models() if not model.micro and "onnx" not in model.excluded],
    ids=lambda model: model.name,
)
def test_nvidia_parses_whole_export(
    model: NetworkModel, precision: str, rtx: ModuleType, tmp_path: Path
) -> None:
    """As one graph: ONNX Runtime computes any other nodes itself, with copies between."""
    format_onnx.export(job_of(model, precision=precision), tmp_path / "model.onnx")
    path = format_onnx.onnx_networks.graph_file(tmp_path / "model.onnx")
    logger = rtx.Logger(rtx.Logger.ERROR)
    network = rtx.Builder(logger).create_network(1 << int(rtx.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = rtx.OnnxParser(network, logger)
    parser.supports_model_v2(path.read_bytes(), str(path))
    assert [parser.is_subgraph_supported(entry) for entry in range(parser.num_subgraphs)] == [True]


def play(
    monkeypatch: pytest.MonkeyPatch, *, parses: bool = True, builds: bool = True, exports: bool = False
) -> dict[str, Any]:
    """A stand-in for TensorRT; returns its calls' arguments by name. It parses no graph, or `exports`."""
    calls: dict[str, Any] = {}
    if not exports:
        monkeypatch.setattr(trt.onnx, "export", lambda _job, path: path.touch())

    def parse(path: str) -> bool:
        graph = onnx.load(path).graph
        calls["types"] = {tensor.data_type for tensor in graph.initializer if len(tensor.dims) > 1}
        calls["inputs"] = {value.type.tensor_type.elem_type for value in graph.input}
        return parses

    module = Player(
        calls,
        MODULE,
        __spec__=ModuleSpec(MODULE, None),
        STRONGLY_TYPED=1,
        TF32=7,
        WORKSPACE="workspace",
        parse_from_file=parse,
        num_errors=1,
        get_error=lambda _index: "no such operator",
        build_serialized_network=lambda *_: b"engine" if builds else None,
    )
    monkeypatch.setitem(sys.modules, MODULE, module)
    return calls


@pytest.mark.parametrize(("precision", "element"), [("fp32", np.float32), ("fp16", np.float16)])
def test_network_is_strongly_typed_in_export_precision(
    precision: str, element: Any, job: ConversionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = play(monkeypatch, exports=True)
    trt.convert(dataclasses.replace(job, precision=precision), tmp_path / "model.plan")
    assert calls["create_network"] == [(1 << 1,)]
    assert calls["types"] == {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(element))}
    assert calls["inputs"] == {onnx.TensorProto.FLOAT}, "clients send FP32, whatever the precision"
    shape = job.model.inputs[0].shape
    assert calls["set_shape"] == [(job.model.inputs[0].name, (1, *shape), (8, *shape), (8, *shape))]
    assert [path.name for path in tmp_path.iterdir()] == ["model.plan"]


@pytest.mark.parametrize("tf32", [True, False, None])
def test_builder_clears_tf32_only_on_request(
    tf32: bool | None, job: ConversionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = play(monkeypatch)
    trt.convert(dataclasses.replace(job, tf32=tf32), tmp_path / "model.plan")
    cleared = [(sys.modules[MODULE].BuilderFlag.TF32,)]
    assert calls.get("clear_flag", []) == (cleared if tf32 is False else [])


def test_failure_leaves_no_file_and_bindings_have_every_name_used(
    job: ConversionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Player.used.clear()
    for fault in ({"parses": False}, {"builds": False}):
        play(monkeypatch, **fault)
        with pytest.raises(ProofError, check=lambda error: error.where == job.model.name):
            trt.convert(dataclasses.replace(job, tf32=False), tmp_path / "model.plan")
        assert not list(tmp_path.iterdir())
    assert ("IBuilderConfig", "clear_flag") in Player.used
    assert tensorrt_bindings.missing_names(Player.used) == {}
