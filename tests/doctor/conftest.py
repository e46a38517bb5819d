"""Fixtures of several tests of the doctor."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.fake_nvml import Nvml, in_place_of_nvml
from tests.serve.programs import script


@pytest.fixture
def a100(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A machine with an A100, whose driver knows CUDA 12."""
    fake = Nvml(lambda: 0.0)
    fake.names = {"GPU-aaaa": "NVIDIA A100-SXM4-80GB"}
    with in_place_of_nvml(fake, monkeypatch):
        yield fake


Docker = Callable[..., None]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """Put a docker on PATH that prints this description, and has an image with these variables or none."""

    def put(about: dict[str, Any], variables: list[str] | None = None) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "about.json").write_text(json.dumps(about))
        (folder / "image.json").write_text(json.dumps([{"Config": {"Env": variables or []}}]))
        has_image = f"cat {folder}/image.json" if variables is not None else "exit 1"
        answers = f"info) cat {folder}/about.json;; image) {has_image};; *) exit 9;;"
        script(folder / "docker", f'case "$1" in {answers} esac')
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return put
