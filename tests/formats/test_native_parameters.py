"""Each release of Triton's own backends reads the parameters that config.pbtxt sets, and none ends a server.

backend_parameters.json has the parameters that the backends' sources read, from the branches r24.10 and later
of github.com/triton-inference-server/{onnxruntime,openvino,pytorch,tensorflow}_backend. Backends ignore
unknown names, so a wrong name silently sets nothing.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.build.configuration import model_config
from fixtures.formats import all_formats
from fixtures.host.targets import CPU, recognise
from fixtures.models import all_models
from fixtures.spec import Case, Format, Model
from tests.build.conversions import DEPLOYMENT


@dataclass(frozen=True)
class Releases:
    """The parameters that a backend reads in a range of releases."""

    backend: str
    file: str
    """The file of the backend's repository that reads it."""
    first_release: str
    last_release: str
    reads: frozenset[str]
    """The names of parameters."""
    ends_the_server: frozenset[str]
    """Parameters that end the server when it loads a model with them a second time."""

    def __str__(self) -> str:
        return f"{self.backend}-{self.first_release}-to-{self.last_release}"


RELEASES = [
    Releases(
        **{
            **entry,
            "reads": frozenset(entry["reads"]),
            "ends_the_server": frozenset(entry["ends_the_server"]),
        }
    )
    for entry in json.loads(Path(__file__).with_name("backend_parameters.json").read_text())
]
BY_NAME = {model.name: model for model in all_models()}
NATIVE = [format_ for format_ in all_formats() if format_.backend and format_.backend != "tensorrt"]


def parameters(format_: Format, model: Model, target: str | None = None) -> Mapping[str, str]:
    """The parameters in config.pbtxt for the format's own backend, on a CPU unless a GPU is named."""
    case = Case(recognise(target) if target else CPU, model, format_, None, "fp32")
    settings = model_config(case, DEPLOYMENT, native=True).parameters
    return {name: value.string_value for name, value in settings.items()}


def every_way(format_: Format) -> Iterator[Mapping[str, str]]:
    """The parameters for each model that the format has, on either device."""
    given_model = dataclasses.replace(BY_NAME["resnet50-micro"], name="given", framework="onnx")
    for model in (*all_models(), given_model):
        if model.framework in format_.frameworks and format_.mnemonic not in model.excluded:
            for target in (None, "NVIDIA A100"):
                yield parameters(format_, model, target)


@pytest.mark.parametrize("releases", RELEASES, ids=str)
def test_every_release_reads_each_parameter(releases: Releases) -> None:
    formats = [native for native in NATIVE if native.backend == releases.backend]
    assert formats
    for format_ in formats:
        for settings in every_way(format_):
            assert settings, "the threads at least"
            assert set(settings) <= releases.reads
            assert not set(settings) & releases.ends_the_server


def test_parameter_table_covers_every_backend_and_release() -> None:
    assert {entry.backend for entry in RELEASES} == {entry.backend for entry in NATIVE}
    for backend in {entry.backend for entry in RELEASES}:
        ranges = [(entry.first_release, entry.last_release) for entry in RELEASES if entry.backend == backend]
        assert ranges[0][0] == "24.10"
        assert all(first <= last for first, last in ranges)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


def test_large_models_on_cpu_disable_memory_arena() -> None:
    (onnx,) = [format_ for format_ in NATIVE if format_.mnemonic == "onnx"]
    off = {"enable_mem_arena": "0", "enable_mem_pattern": "0"}
    assert off.items() <= parameters(onnx, BY_NAME["nnunet"]).items()
    assert not off.keys() & parameters(onnx, BY_NAME["resnet50"]).keys()
    assert not off.keys() & parameters(onnx, BY_NAME["nnunet"], "NVIDIA A100").keys()
