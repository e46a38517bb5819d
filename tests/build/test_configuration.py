"""The model configuration has every requested setting, and a user's keeps its lines with a variant's."""

import subprocess
from pathlib import Path

import pytest
from google.protobuf import text_format
from msgspec import structs
from tritonclient.grpc import model_config_pb2 as pb

from tests.build.conversions import MICRO, ONNX, UP_TO_32, case_with, writing
from tritonproof.base.errors import InputError
from tritonproof.build import configuration, runtime_files
from tritonproof.build.configuration import model_config
from tritonproof.formats import all_formats
from tritonproof.host import machine
from tritonproof.host.targets import CPU, recognise
from tritonproof.record.setup import ConfigVariant, Deployment, Scenario
from tritonproof.spec import Case, Format, Target


def test_configuration_has_every_setting() -> None:
    config = model_config(case_with(writing("")), UP_TO_32, native=False)
    assert config.max_batch_size == 32
    assert config.instance_group[0].count == 1
    assert config.instance_group[0].kind == pb.ModelInstanceGroup.KIND_CPU
    assert not config.instance_group[0].gpus
    assert list(config.dynamic_batching.preferred_batch_size) == [16, 32]
    assert config.dynamic_batching.max_queue_delay_microseconds == 1_000
    assert [warmup.batch_size for warmup in config.model_warmup] == [1, 32]
    assert config.input[0].name == "INPUT__0"
    assert config.input[0].data_type == pb.TYPE_FP32
    assert list(config.output[0].dims) == [10]


def test_offline_configuration_only_lacks_dynamic_batching() -> None:
    case = case_with(writing(""))
    online = model_config(case, UP_TO_32, native=False)
    offline = model_config(case, UP_TO_32, native=False, scenario="offline")
    assert not offline.HasField("dynamic_batching")
    online.ClearField("dynamic_batching")
    assert online == offline


def test_native_and_python_differ_in_backend_fields_only() -> None:
    case = case_with(writing(""))
    native, python = (model_config(case, UP_TO_32, native=native) for native in (True, False))
    assert (native.backend, python.backend) == ("onnxruntime", "python")
    assert native.default_model_filename == "model.onnx"
    for config in (native, python):
        for field in ("backend", "default_model_filename", "parameters"):
            config.ClearField(field)
    assert native == python


A100 = recognise("NVIDIA A100")
TRT = next(format_ for format_ in all_formats() if format_.name == "trt")
SCRIPT = next(format_ for format_ in all_formats() if format_.name == "ts-script")


@pytest.mark.parametrize(
    ("target", "format_", "accelerator", "native", "heard"),
    [
        (A100, TRT, None, True, "cuda_graphs"),
        (A100, TRT, None, False, ""),
        (A100, ONNX, None, False, "cuda_graphs prefer_nhwc"),
        (A100, ONNX, None, True, ""),
        (A100, ONNX, "trt", False, ""),
        (A100, SCRIPT, None, True, ""),
        (A100, SCRIPT, None, False, ""),
        (CPU, ONNX, None, False, ""),
    ],
)
@pytest.mark.parametrize("setting", ["cuda_graphs", "prefer_nhwc"])
def test_gpu_setting_takes_effect_or_is_refused(
    setting: str, target: Target, format_: Format, accelerator: str | None, native: bool, heard: str
) -> None:
    """A record must not claim a setting that the server ignored."""
    case = Case(target, MICRO, format_, accelerator, "fp32")
    deployment = structs.replace(UP_TO_32, **{setting: True})
    if setting in heard.split():
        config = model_config(case, deployment, native=native)
        enabled = config.parameters[setting].string_value == "1"
        assert config.optimization.cuda.graphs if native else enabled
        return
    with pytest.raises(InputError, check=lambda error: error.where == f"--deployment {setting}=true"):
        model_config(case, deployment, native=native)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("scenario", ["online", "offline"])
@pytest.mark.parametrize(
    "field",
    [item.name for item in structs.fields(UP_TO_32) if item.name not in ("cuda_graphs", "prefer_nhwc")],
)
def test_every_deployment_setting_changes_configuration(field: str, scenario: Scenario, native: bool) -> None:
    other = Deployment(16, 2, (4, 8), 7, cuda_graphs=False, warmup=False, tf32=False)
    changed = structs.replace(UP_TO_32, **{field: getattr(other, field)})
    case = Case(A100, MICRO, ONNX, None, "fp32")
    before, after = (
        model_config(case, item, native=native, scenario=scenario) for item in (UP_TO_32, changed)
    )
    of_the_batcher = scenario == "offline" and field in ("preferred_batch_sizes", "max_queue_delay_us")
    assert (before == after) is of_the_batcher


@pytest.mark.parametrize("count", [1, 2])
def test_gpu_case_uses_its_accelerator_and_only_its_own_gpus(count: int) -> None:
    case = Case(A100, MICRO, ONNX, "trt", "fp16", count)
    config = model_config(case, structs.replace(UP_TO_32, instances=3), native=True)
    (group,) = config.instance_group
    assert group.kind == pb.ModelInstanceGroup.KIND_GPU
    assert list(group.gpus) == list(range(count))
    assert group.count == 3, "on each"
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "tensorrt"
    assert accelerator.parameters["precision_mode"] == "FP16"


@pytest.mark.parametrize(
    ("quota", "instances", "threads"),
    [(None, 1, 8), (None, 3, 2), (None, 16, 1), (100.0, 1, 8), (3.2, 1, 4), (0.5, 1, 1)],
)
def test_cgroup_cores_are_shared_among_instances(
    quota: float | None, instances: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's limit of CPUs is a quota, and its affinity is the whole node."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(8)))
    monkeypatch.setattr(machine, "cgroup_cores", lambda: quota)
    deployment = structs.replace(UP_TO_32, instances=instances)
    parameters = runtime_files.runtime_parameters(case_with(writing("converted")), deployment)
    assert parameters["threads"] == str(threads)


HEAD = 'name: "detector"  # { not a bracket\nmax_batch_size: 8\n'
ONE = "instance_group [\n  { count: 1, kind: KIND_CPU }\n]\n"
BATCHER = "dynamic_batching { preserve_ordering: true preferred_batch_size: [ 2 ] }\n"
TAIL = '# the end\nparameters { key: "brackets" value { string_value: "]}" } }\n'
COMPLETED = text_format.Parse(
    'max_batch_size: 8 instance_group { count: 1 kind: KIND_CPU name: "x_0" }', pb.ModelConfig()
)
DEPLOYED = Deployment(8, 1, (), 0, cuda_graphs=False, warmup=False)


def variant(
    instances: int = 2, scenario: Scenario = "online", delay_us: int = 100, *sizes: int
) -> ConfigVariant:
    changes = {"instances": instances, "preferred_batch_sizes": sizes, "max_queue_delay_us": delay_us}
    return ConfigVariant(scenario, structs.replace(DEPLOYED, **changes))


@pytest.mark.parametrize(
    ("text", "wanted", "kept"),
    [
        (HEAD + ONE + BATCHER + TAIL, variant(), HEAD + TAIL.rstrip()),
        (HEAD + TAIL + ONE, variant(4, "online", 0, 4, 8), HEAD + TAIL.rstrip()),
        (HEAD + ONE + BATCHER + TAIL, variant(1, "offline"), HEAD),
        ("max_batch_size: 8 instance_group { count: 1 } dynamic_batching {}", variant(), ""),
        ("", variant(), ""),
    ],
)  # fmt: skip
def test_diff_applies_cleanly_and_keeps_other_lines(
    text: str, wanted: ConfigVariant, kept: str, tmp_path: Path
) -> None:
    own = text_format.Parse(text, pb.ModelConfig())
    config = configuration.apply_variant(own, COMPLETED, wanted)
    after = configuration.changed_config_text(text, own, config)
    (tmp_path / "detector").mkdir()
    if text:
        (tmp_path / "detector" / "config.pbtxt").write_text(text)
    change = configuration.config_diff("detector", text, after)
    subprocess.run(["patch", "-p1", "--quiet"], input=change, text=True, cwd=tmp_path, check=True)

    patched = (tmp_path / "detector" / "config.pbtxt").read_text()
    assert text_format.Parse(patched, pb.ModelConfig()) == config
    assert patched.startswith(kept)
    batching = config.dynamic_batching
    assert config.HasField("dynamic_batching") == (wanted.scenario == "online")
    assert batching.preserve_ordering == ("preserve" in text and wanted.scenario == "online")
    if wanted.scenario == "online":
        deployment = wanted.deployment
        assert tuple(batching.preferred_batch_size) == deployment.preferred_batch_sizes
        assert batching.max_queue_delay_microseconds == deployment.max_queue_delay_us
    if wanted.deployment.instances > 1:
        (group,) = config.instance_group
        assert (group.count, group.kind) in ((2, 2), (4, 2), (2, 0))


def test_own_settings_give_an_empty_diff() -> None:
    text = HEAD + BATCHER + TAIL
    own = text_format.Parse(text, pb.ModelConfig())
    same = configuration.apply_variant(own, COMPLETED, variant(1, "online", 0, 2))
    assert configuration.changed_config_text(text, own, same) == text
    assert configuration.config_diff("detector", text, text) == ""


def test_only_variable_settings_change() -> None:
    """Without batches, or with several instance groups, nothing can vary."""
    groups = "instance_group [ { count: 1 }, { count: 2 } ]"
    own = text_format.Parse(f"max_batch_size: 0 {groups}", pb.ModelConfig())
    assert configuration.apply_variant(own, own, variant(4)) == own
