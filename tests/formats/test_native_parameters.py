"""Each release of Triton's own backends reads the parameters that config.pbtxt sets, and none ends a server.

backend_parameters.json has the parameters that the backends' sources read, from the branches r24.10 and later
of github.com/triton-inference-server/{onnxruntime,openvino,pytorch,tensorflow}_backend. Backends ignore
unknown names, so a wrong name silently sets nothing.
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.build.conversions import UP_TO_32
from tritonproof.build.configuration import model_config
from tritonproof.formats import all_formats
from tritonproof.host.targets import CPU, recognise
from tritonproof.models import all_models
from tritonproof.spec import Case, Format, Model

RELEASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("backend_parameters.json").read_text())
"""The parameters that a file of a backend's repository reads in a range of releases, and those that end the
server when it loads a model with them a second time."""
BY_NAME = {model.name: model for model in all_models()}
NATIVE = [
    (format_, format_.backend.name)
    for format_ in all_formats()
    if format_.backend is not None and not format_.backend.reads_engines
]


def parameters(format_: Format, model: Model, target: str | None = None) -> Mapping[str, str]:
    """The parameters in config.pbtxt for the format's own backend, on a CPU unless a GPU is named."""
    case = Case(recognise(target) if target else CPU, model, format_, None, "fp32")
    written = model_config(case, UP_TO_32, native=True).parameters
    return {name: value.string_value for name, value in written.items()}


@pytest.mark.parametrize(
    "releases", RELEASES, ids=lambda entry: "{backend}-{first_release}-to-{last_release}".format_map(entry)
)
def test_every_release_reads_each_parameter(releases: dict[str, Any]) -> None:
    formats = [format_ for format_, backend in NATIVE if backend == releases["backend"]]
    assert formats
    models = (*all_models(), dataclasses.replace(BY_NAME["resnet50-micro"], name="given", framework="onnx"))
    for format_, model, target in itertools.product(formats, models, (None, "NVIDIA A100")):
        if model.framework in format_.frameworks and format_.name not in model.excluded:
            written = parameters(format_, model, target)
            assert written, "the threads at least"
            assert written.keys() <= set(releases["reads"])
            assert not written.keys() & set(releases["ends_the_server"])


def test_parameter_table_covers_every_backend() -> None:
    assert {entry["backend"] for entry in RELEASES} == {backend for _, backend in NATIVE}


def test_large_models_on_cpu_disable_memory_arena() -> None:
    (onnx,) = [format_ for format_, _ in NATIVE if format_.name == "onnx"]
    off = {"enable_mem_arena": "0", "enable_mem_pattern": "0"}
    assert off.items() <= parameters(onnx, BY_NAME["nnunet"]).items()
    assert not off.keys() & parameters(onnx, BY_NAME["resnet50"]).keys()
    assert not off.keys() & parameters(onnx, BY_NAME["nnunet"], "NVIDIA A100").keys()
