"""OpenVINO on ONNX files: outputs, and parameters of the server's backend."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from tests.formats.converting import job_of
from tests.user_models import networks
from tritonproof.build.configuration import model_config
from tritonproof.build.runtime_files import open_in_process
from tritonproof.cases import profile_of
from tritonproof.formats.openvino import OPENVINO
from tritonproof.host import machine
from tritonproof.host.targets import CPU
from tritonproof.spec import Case, NetworkModel
from tritonproof.user_models.onnx_model import OnnxOptions, model_of


def convert(model: NetworkModel, path: Path) -> Case:
    OPENVINO.convert(job_of(model), path)
    return Case(CPU, model, OPENVINO, None, "fp32")


def test_backend_gets_one_file_with_external_weights_merged(tmp_path: Path) -> None:
    model = model_of("mine", OnnxOptions(networks.apart(tmp_path / "net.onnx")))
    artifact = tmp_path / "build" / "model.onnx"
    artifact.parent.mkdir()
    convert(model, artifact)
    assert [path.name for path in artifact.parent.iterdir()] == ["model.onnx"]
    alone = model_of("alone", OnnxOptions(artifact))
    inputs = model.samples("evaluation", None, None).read([0, 1])
    expected, actual = (
        each_model.infer(each_model.load_weights(None).network, inputs)["scores"]
        for each_model in (model, alone)
    )
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("instances", "cores"), [(1, 8), (2, 8), (4, 2)])
def test_instances_share_threads_by_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instances: int, cores: int
) -> None:
    """The backend compiles the network once for any number of instances."""
    monkeypatch.setattr(machine, "cores", lambda: cores)
    model = model_of("mine", OnnxOptions(networks.linear(tmp_path / "net.onnx")))
    case = Case(CPU, model, OPENVINO, None, "fp32")
    deployment = structs.replace(profile_of(model, CPU).deployment, instances=instances)
    written = model_config(case, deployment, native=True).parameters
    assert written["INFERENCE_NUM_THREADS"].string_value == str(cores)
    assert written["NUM_STREAMS"].string_value == str(min(instances, cores))
    assert written["ENABLE_BATCH_PADDING"].string_value == "YES", "else every batch but the largest fails"


def test_missing_openvino_skips_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "version_of", lambda _name: None)
    assert OPENVINO.why_missing("cpu", None, "fp32")


@pytest.mark.parametrize("write", [networks.linear, networks.apart, networks.without_batch, networks.tokens])
def test_openvino_matches_framework(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    if (reason := OPENVINO.why_missing("cpu", None, "fp32")) is not None:
        pytest.skip(reason)
    model = model_of("mine", OnnxOptions(write(tmp_path / "net.onnx")))
    case = convert(model, tmp_path / "model.onnx")
    run = open_in_process(case, tmp_path / "model.onnx", profile_of(model, CPU).deployment)
    inputs = model.samples("evaluation", None, None).read([0, 1, 2])
    expected = model.infer(model.load_weights(None).network, inputs)
    for name, values in run(inputs).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-5 * np.abs(expected[name]).max())
