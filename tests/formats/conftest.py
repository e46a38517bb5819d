"""Fixtures for several formats: a small network in PyTorch, its model, and a job that converts it."""

import dataclasses
import importlib
from types import ModuleType

import pytest
import torch

from tests.formats.converting import Small, job_of, samples_of
from tests.frameworks.gpu_packages import unpack_from_pypi
from tritonproof.frameworks.pytorch import infer
from tritonproof.models import all_models
from tritonproof.spec import ConversionJob, NetworkModel, Tensor

RTX_VERSION = "1.7.1.116"


@pytest.fixture(scope="session")
def network() -> Small:
    torch.manual_seed(0)
    small = Small()
    small.train()(torch.randn(64, 3, 8, 8))
    return small.eval()


@pytest.fixture(scope="session")
def model() -> NetworkModel:
    """The micro model's value with the small network's tensors."""
    micro = next(model for model in all_models() if model.name == "resnet50-micro")
    return dataclasses.replace(
        micro,
        name="small",
        inputs=(Tensor("x", "FP32", (3, 8, 8)),),
        outputs=(Tensor("y", "FP32", (5,)),),
        infer=lambda network, inputs: infer(network, inputs, ("y",)),
        samples=samples_of,
    )


@pytest.fixture(scope="session")
def job(network: Small, model: NetworkModel) -> ConversionJob:
    return job_of(model, network)


@pytest.fixture(scope="session")
def rtx(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """TensorRT for RTX, from PyPI: NVIDIA's parser and builder with the same names, which need no GPU."""
    folder = tmp_path_factory.mktemp("rtx")
    for part in ("bindings", "libs"):
        unpack_from_pypi(f"tensorrt-rtx-cu13-{part}=={RTX_VERSION}", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return importlib.import_module("tensorrt_rtx_bindings")
