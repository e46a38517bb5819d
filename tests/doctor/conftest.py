"""Fixtures of several tests of the doctor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml import Nvml
from tests.serve.programs import FakeDocker


@pytest.fixture
def a100(nvml: Nvml) -> Nvml:
    """A machine with an A100, whose driver knows CUDA 12."""
    nvml.names = {"GPU-aaaa": "NVIDIA A100-SXM4-80GB"}
    return nvml


Docker = Callable[..., None]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """Put a docker on PATH that prints this description, and has an image with these variables."""

    def put(about: dict[str, Any], variables: list[str]) -> None:
        FakeDocker(tmp_path).say({"Config": {"Env": variables}}, about)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    return put
