"""ONNX files without a batch axis, and with strings."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.formats.converting import case, converted, job_of, score
from tests.user_models import networks
from tritonproof.build import builds
from tritonproof.build.builds import CaseBuild
from tritonproof.cases import profile_of
from tritonproof.efficiency.worker import artifact_worker
from tritonproof.host.targets import CPU
from tritonproof.record.setup import ConfigVariant
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_build
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import NetworkModel, Tensor
from tritonproof.user_models.onnx_model import OnnxOptions, model_of

TEXTS = np.array([["yes"], ["nö"], ["perhaps"], [""]])


def built(model: NetworkModel, folder: Path) -> CaseBuild:
    deployment, weights = profile_of(model, CPU).deployment, model.load_weights(None)
    return builds.build(case(model), weights, deployment, folder, native=False, samples=job_of(model).samples)


def served(model: NetworkModel, folder: Path, inputs: Any) -> Any:
    """Triton's answers to rows that it gets one by one."""
    build = built(model, folder / "repos")
    with serve(ServerSpec("embedded"), ServerSetup(build.folder.parent, folder / "log", "cpu")) as server:
        load_build(server, build, ConfigVariant("online", profile_of(model, CPU).deployment))
        count = len(next(iter(inputs.values())))
        rows = [{name: values[row : row + 1] for name, values in inputs.items()} for row in range(count)]
        answers = [server.infer(str(build.case), model, row) for row in rows]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def test_unbatched_network_matches_converted_quantized_and_served(tmp_path: Path) -> None:
    path, rows = networks.without_batch(tmp_path / "net.onnx"), networks.rows(tmp_path / "rows", 12, (3, 4))
    model = model_of("mine", OnnxOptions(path, rows))
    assert "TensorRT" in model.excluded["trt"]
    inputs = model.samples("evaluation", None, None).read([0, 1, 2])
    expected = model.infer(model.load_weights(None).network, inputs)
    exact, small = (converted(model, tmp_path / f"{name}.onnx", name)(inputs) for name in ("fp32", "int8"))
    for answers in (exact, served(model, tmp_path, inputs)):
        for name, shape in (("scores", (3, 3, 2)), ("most", (3, 1))):
            assert answers[name].shape == expected[name].shape == shape
            np.testing.assert_allclose(answers[name], expected[name], rtol=1e-5)
    assert np.abs(small["scores"] - expected["scores"]).mean() < 0.1 * np.abs(expected["scores"]).max()


def test_strings_reach_the_network_and_return(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "words.npy", TEXTS)
    model = model_of("mine", OnnxOptions(networks.words(tmp_path / "net.onnx"), tmp_path / "samples"))
    assert "openvino" in model.excluded, "it has no texts"
    inputs = model.samples("evaluation", None, None).read(range(len(TEXTS)))
    texts = [[text.encode()] for (text,) in TEXTS.tolist()]
    for answers in (
        model.infer(model.load_weights(None).network, inputs),
        converted(model, tmp_path / "exact.onnx")(inputs),
        served(model, tmp_path, inputs),
    ):
        assert answers["meaning"].tolist() == [[1.0], [-1.0], [0.0], [0.0]]
        assert answers["said"].tolist() == texts
    build, deployment = built(model, tmp_path / "repos"), profile_of(model, CPU).deployment
    with artifact_worker(build, deployment, inputs) as worker:
        worker.wait_ready()
        assert worker.measure_per_s(2, 0.01, 1) > 0


def test_scalar_row_is_served_with_an_axis(tmp_path: Path) -> None:
    """As a scikit-learn classifier's label. The file is not changed: the configuration reshapes."""
    path = networks.classifier(tmp_path / "net.onnx")
    model = model_of("mine", OnnxOptions(path))
    inputs = model.samples("evaluation", None, None).read([0, 1, 2])
    expected = model.infer(model.load_weights(None).network, inputs)
    assert expected["label"].shape == (3, 1)
    assert score(model, converted(model, tmp_path / "exact.onnx")) == 1.0
    assert (tmp_path / "exact.onnx").read_bytes() == path.read_bytes()
    for name, values in served(model, tmp_path, inputs).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-5)


def test_batch_axis_missing_in_an_output_disables_batching(tmp_path: Path) -> None:
    model = model_of("mine", OnnxOptions(networks.steps_first(tmp_path / "net.onnx")))
    assert not model.batched
    assert model.inputs == (Tensor("pictures", "FP32", (1, 1, 2, 16)),)
    assert model.outputs == (Tensor("steps", "FP32", (16, 1, 3)),)
