"""Micro networks in PyTorch convert with a dynamic batch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fixtures.build import runtimes
from fixtures.cases import matrix_of
from fixtures.formats import all_formats, pt2
from fixtures.host.targets import CPU
from fixtures.models import all_models
from fixtures.spec import Arrays, Case, ConversionJob, Format

pytestmark = pytest.mark.campaign  # the benchmarks convert each too

MODELS = {
    model.name: model
    for model in all_models()
    if model.micro and model.framework == "pytorch" and model.name != "resnet50-micro"
}
"""Not ResNet50: the small network in tests/formats has its layers."""
FORMS = [
    (name, format_)
    for name, model in MODELS.items()
    for format_ in all_formats()
    if "pytorch" in format_.frameworks and "cpu" in format_.precisions
    if format_.mnemonic not in model.excluded
]


def converted(job: ConversionJob, format_: Format, path: Path) -> Callable[[Arrays], Arrays]:
    """A network's conversion as a function; for AOTInductor the exported graph, as compiling takes long."""
    if format_.mnemonic == "pt2":
        exported = pt2.exported_program(job).module()
        return lambda inputs: job.model.run(exported, inputs)
    format_.convert(job, path)
    case = Case(CPU, job.model, format_, None, job.precision)
    return runtimes.open_in_process(case, path, matrix_of(job.model, CPU).deployment)


@pytest.mark.parametrize(
    ("name", "format_"), FORMS, ids=[f"{name}-{format_.mnemonic}" for name, format_ in FORMS]
)
def test_conversion_matches_network_at_another_batch_size(name: str, format_: Format, tmp_path: Path) -> None:
    model = MODELS[name]
    network = model.load(None).network
    job = ConversionJob(model, network, "fp32", None, "cpu", 8, None, lambda _step: None)
    run = converted(job, format_, tmp_path / format_.artifact)
    for rows in (1, 5):
        inputs = model.samples("evaluation", None, None).load(range(rows))
        expected, outputs = model.run(network, inputs), run(inputs)
        assert list(outputs) == [tensor.name for tensor in model.outputs]
        for tensor in model.outputs:
            values, wanted = outputs[tensor.name], expected[tensor.name]
            assert values.shape == wanted.shape == (rows, *tensor.shape)
            assert values.dtype == wanted.dtype
            # A voxel of nnU-Net with equally likely classes may get another class.
            assert np.isclose(values, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max()).mean() > 0.9999
