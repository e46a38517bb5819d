"""A server is told where ONNX Runtime keeps the TensorRT engines that it builds, each kind of server its own place."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.host import private
from fixtures.host.targets import recognise
from fixtures.serve.server import Server
from fixtures.serve.server_spec import ServerKind
from fixtures.spec import Case
from tests.build.conversions import DEPLOYMENT, MICRO, ONNX


@pytest.mark.parametrize(
    ("kind", "accelerator", "place"),
    [
        ("embedded", "trt", "here"),
        ("docker", "trt", "/tmp"),
        ("docker", None, None),
    ],
)
def test_engines_are_kept_beside_a_server_of_this_machine_and_in_a_container(
    kind: ServerKind,
    accelerator: str | None,
    place: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private, "user_folder", lambda: tmp_path / "tritonproof")
    told: dict[str, Any] = {}
    client = SimpleNamespace(load_model=lambda _name, **what: told.update(json.loads(what["config"])))
    case = Case(recognise("NVIDIA A100"), MICRO, ONNX, accelerator, "fp16")
    built = BuiltModel(case, tmp_path / str(case), "0f3c", "test", 1.0, 1.0, reused=False)
    Server(kind, "127.0.0.1:1", "2.51.0", None, client).load(built, DEPLOYMENT, "online")
    if kind == "embedded":
        folder = told["parameters"]["engines"]["string_value"]
    else:
        accelerators = (
            told["optimization"].get("execution_accelerators", {}).get("gpu_execution_accelerator", [])
        )
        paths = [one["parameters"].get("trt_engine_cache_path") for one in accelerators]
        folder = next(filter(None, paths), None)
    expected = {"here": str(tmp_path / "tritonproof" / "engines")}.get(str(place), place)
    assert (None if folder is None else str(Path(folder).parent)) == expected
