"""The model repository: built once, reused by content, never half, and configured as asked."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from fixtures.build import repository
from fixtures.errors import ProofError
from fixtures.formats import all_formats
from fixtures.models import all_models
from fixtures.build.repository import Build, model_config
from fixtures.spec import Case, ConversionJob, Deployment, Samples, Weights
from fixtures.host.targets import CPU, recognise

ROOT = Path(__file__).parents[2]
DEPLOYMENT = Deployment(32, 1, (16, 32), 1_000, False, True)
WEIGHTS = Weights(network=None, origin="test", digest="w1", trained=True)
MICRO = next(model for model in all_models() if model.name == "resnet50-micro")
ONNX = next(one for one in all_formats() if one.mnemonic == "onnx")


def case_with(convert: Callable[[ConversionJob, Path], None], precision: str = "fp32") -> Case:
    """A CPU case whose conversion is `convert`."""
    return Case(CPU, MICRO, dataclasses.replace(ONNX, convert=convert), None, precision)


def writing(text: str, counted: list[str] | None = None) -> Callable[[ConversionJob, Path], None]:
    """A conversion that writes `text`, and appends to `counted` each time it is made."""

    def convert(_job: ConversionJob, path: Path) -> None:
        path.write_text(text)
        if counted is not None:
            counted.append(text)

    return convert


def no_samples() -> Samples:
    raise AssertionError("only a format that calibrates asks for samples")


def build(case: Case, root: Path, weights: Weights = WEIGHTS, deployment: Deployment = DEPLOYMENT) -> Build:
    return repository.build(case, weights, deployment, root, native=False, calibration=no_samples)


def test_a_build_is_a_whole_model_folder(tmp_path: Path) -> None:
    case = case_with(writing("converted"))
    built = build(case, tmp_path)
    assert built.folder == tmp_path / "cpu" / "cpu-resnet50-micro-onnx-fp32"
    assert sorted(path.name for path in built.folder.iterdir()) == ["1", "build.json", "config.pbtxt"]
    assert {path.name for path in (built.folder / "1").iterdir()} == {"model.onnx", "model.py", "runtime.py"}
    assert built.artifact.read_text() == "converted"
    stored = json.loads((built.folder / "build.json").read_text())
    assert stored["content"]["versions"]["torch"]
    assert stored["content"]["hardware"]
    assert "resnet50/architecture.py" in stored["content"]["sources"]
    assert stored["size_mib"] == built.size_mib


def test_an_equal_build_is_reused(tmp_path: Path) -> None:
    made: list[str] = []
    case = case_with(writing("converted", made))
    first, second = build(case, tmp_path), build(case, tmp_path)
    assert made == ["converted"]
    assert not first.reused
    assert second.reused
    assert second.digest == first.digest


def test_other_weights_or_another_largest_batch_are_built_anew(tmp_path: Path) -> None:
    made: list[str] = []
    case = case_with(writing("converted", made))
    build(case, tmp_path)
    build(case, tmp_path, weights=dataclasses.replace(WEIGHTS, digest="w2"))
    build(
        case,
        tmp_path,
        deployment=dataclasses.replace(DEPLOYMENT, max_batch_size=8, preferred_batch_sizes=(8,)),
    )
    assert len(made) == 3


def test_other_settings_change_the_configuration_alone(tmp_path: Path) -> None:
    made: list[str] = []
    case = case_with(writing("converted", made))
    build(case, tmp_path)
    built = build(case, tmp_path, deployment=dataclasses.replace(DEPLOYMENT, instances=2))
    config = text_format.Parse((built.folder / "config.pbtxt").read_text(), pb.ModelConfig())
    assert config.instance_group[0].count == 2
    assert len(made) == 1


@pytest.mark.parametrize(
    ("source", "changed"),
    [("model.py", "model.py"), ("__init__.py", "__init__.py"), ("__init__.py", "architecture.py")],
)
def test_a_changed_source_is_built_anew(source: str, changed: str, tmp_path: Path) -> None:
    (tmp_path / source).write_text("a = 1")
    (tmp_path / changed).write_text("a = 1")
    made: list[str] = []
    case = case_with(writing("converted", made))
    case = dataclasses.replace(case, model=dataclasses.replace(MICRO, source=tmp_path / source))
    build(case, tmp_path)
    (tmp_path / changed).write_text("a = 2")
    build(case, tmp_path)
    assert len(made) == 2


@pytest.mark.parametrize("damage", ["artifact", "build.json", "truncated build.json"])
def test_a_damaged_build_is_built_anew(damage: str, tmp_path: Path) -> None:
    made: list[str] = []
    case = case_with(writing("converted", made))
    built = build(case, tmp_path)
    if damage == "artifact":
        built.artifact.write_text("conv")
    elif damage == "build.json":
        (built.folder / "build.json").unlink()
    else:
        (built.folder / "build.json").write_text('{"digest": ')
    assert not build(case, tmp_path).reused
    assert built.artifact.read_text() == "converted"
    assert len(made) == 2


def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(_job: ConversionJob, path: Path) -> None:
        path.write_text("half")
        raise ValueError("no such operator")

    with pytest.raises(ValueError, match="no such operator"):
        build(case_with(fail), tmp_path)
    assert [path.name for path in (tmp_path / "cpu").iterdir()] == [".cpu-resnet50-micro-onnx-fp32.lock"]


def test_a_full_disk_is_said_in_one_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    def fill(_job: ConversionJob, path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ProofError, match=r"(?s)the disk is full.*--model-repos"):
        build(case_with(fill), tmp_path)
    assert not any(path.is_dir() for path in (tmp_path / "cpu").iterdir())


def test_a_full_disk_is_recognised_behind_a_librarys_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_job: ConversionJob, _path: Path) -> None:
        raise RuntimeError("PytorchStreamWriter failed writing file")

    usage = repository.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(repository.shutil, "disk_usage", lambda _path: usage._replace(free=4096))
    with pytest.raises(ProofError, match="the disk is full"):
        build(case_with(fail), tmp_path)


_WORKER = """
    import sys, time
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from tests.build import test_repository as t

    def convert(job, path):
        with open({log!r}, "a") as log:
            log.write("made\\n")
        path.write_text("half")
        time.sleep({seconds})
        path.write_text("converted")

    print(t.build(t.case_with(convert), Path({repos!r})).reused)
"""


def worker(tmp_path: Path, seconds: float) -> "subprocess.Popen[str]":
    code = textwrap.dedent(_WORKER).format(
        root=str(ROOT), log=str(tmp_path / "log"), repos=str(tmp_path), seconds=seconds
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def test_two_processes_never_build_the_same_thing_twice(tmp_path: Path) -> None:
    workers = [worker(tmp_path, seconds=1) for _ in range(2)]
    said = sorted(one.communicate(timeout=60)[0].strip() for one in workers)
    assert said == ["False", "True"]
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_build_killed_half_way_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    killed = worker(tmp_path, seconds=60)
    wait_for(tmp_path / "log")
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert not (tmp_path / "cpu" / "cpu-resnet50-micro-onnx-fp32").exists()
    made: list[str] = []
    assert not build(case_with(writing("converted", made)), tmp_path).reused
    assert made == ["converted"]
    assert not (tmp_path / "cpu" / ".cpu-resnet50-micro-onnx-fp32.unfinished").exists()


def test_calibration_samples_are_loaded_for_int8_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    def calibration() -> Samples:
        asked.append("training")
        return Samples(["one"], lambda indices: {"INPUT__0": np.zeros((len(indices), 1), np.float32)})

    for precision in ("fp32", "int8"):
        case = case_with(writing("converted"), precision)
        repository.build(case, WEIGHTS, DEPLOYMENT, tmp_path, native=False, calibration=calibration)
    assert asked == ["training"]


# --- configuration -----------------------------------------------------------------------------------------


def test_the_configuration_holds_every_setting() -> None:
    config = model_config(case_with(writing("")), DEPLOYMENT, native=False)
    assert config.max_batch_size == 32
    assert config.instance_group[0].count == 1
    assert config.instance_group[0].kind == pb.ModelInstanceGroup.KIND_CPU
    assert list(config.dynamic_batching.preferred_batch_size) == [16, 32]
    assert config.dynamic_batching.max_queue_delay_microseconds == 1_000
    assert [one.batch_size for one in config.model_warmup] == [1, 32]
    assert config.input[0].name == "INPUT__0"
    assert config.input[0].data_type == pb.TYPE_FP32
    assert list(config.output[0].dims) == [10]


def test_the_offline_scenario_has_no_dynamic_batching_and_is_else_the_same() -> None:
    case = case_with(writing(""))
    online = model_config(case, DEPLOYMENT, native=False)
    offline = model_config(case, DEPLOYMENT, native=False, scenario="offline")
    assert not offline.HasField("dynamic_batching")
    online.ClearField("dynamic_batching")
    assert online == offline


def test_native_and_python_serving_differ_in_backend_file_and_parameters_alone() -> None:
    case = case_with(writing(""))
    native, python = (model_config(case, DEPLOYMENT, native=native) for native in (True, False))
    assert (native.backend, python.backend) == ("onnxruntime", "python")
    assert native.default_model_filename == "model.onnx"
    for config in (native, python):
        for field in ("backend", "default_model_filename", "parameters"):
            config.ClearField(field)
    assert native == python


def test_a_gpu_case_has_its_accelerator_and_its_cuda_graphs() -> None:
    a100 = recognise("NVIDIA A100")
    case = Case(a100, MICRO, ONNX, "trt", "fp16")
    config = model_config(case, dataclasses.replace(DEPLOYMENT, cuda_graphs=True), native=True)
    assert config.instance_group[0].kind == pb.ModelInstanceGroup.KIND_GPU
    assert config.optimization.cuda.graphs
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "tensorrt"
    assert accelerator.parameters["precision_mode"] == "FP16"


def test_the_configuration_survives_as_text_and_as_json() -> None:
    config = model_config(case_with(writing("")), DEPLOYMENT, native=False)
    assert text_format.Parse(repository.config_text(config), pb.ModelConfig()) == config
    plain: dict[str, Any] = json.loads(repository.config_json(config))
    assert plain["max_batch_size"] == 32
    assert plain["dynamic_batching"]["preferred_batch_size"] == [16, 32]


def test_cores_are_shared_out_among_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository.machine, "cores", lambda: 8)
    shares = [
        repository.threads_per_instance(dataclasses.replace(DEPLOYMENT, instances=n)) for n in (1, 2, 3, 16)
    ]
    assert shares == [8, 4, 2, 1]
