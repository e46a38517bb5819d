"""A model's configuration for Triton, config.pbtxt: a converted model's, and a user's with a variant of its
settings, as a text that keeps the user's other lines and as a diff."""

import contextlib
import difflib
import re
from typing import TYPE_CHECKING, Any

from tritonproof.base.errors import InputError
from tritonproof.build.runtime_files import has_large_tensors, runtime_settings, tf32_setting
from tritonproof.record.setup import ConfigVariant, Deployment, Scenario
from tritonproof.spec import Case, Tensor

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

VERSION_FOLDER = "1"
"""The name of the folder of a model's artifact and code, the only version that Triton serves."""


def model_config(
    case: Case, deployment: Deployment, *, native: bool, scenario: Scenario = "online", engines: str = ""
) -> "ModelConfig":
    """The model's configuration. `native` and Python serving differ only in backend, file name and
    parameters. Offline has no dynamic batching. `engines` is the server's folder for TensorRT's, or empty."""
    from tritonclient.grpc import model_config_pb2 as pb

    largest = 0 if case.model.takes_single_rows else deployment.max_batch_size
    config = pb.ModelConfig(name=str(case), max_batch_size=largest)
    config.version_policy.specific.versions.append(int(VERSION_FOLDER))
    backend, runtime = case.format.backend if native else None, case.format.runtime
    is_gpu_alone = case.target.device == "cuda" and case.accelerator is None
    if backend is not None:
        config.backend, config.platform = backend.name, backend.platform
        config.default_model_filename = case.format.artifact
        settings = runtime_settings(case, deployment) | {"device": case.target.device}
        parameters = dict(backend.parameters(settings))
    else:
        config.backend = "python"
        parameters = runtime_settings(case, deployment, engines)
        if parameters["tensors"] == "torch":
            # The Python backend's own parameter: inputs stay in the memory where they are.
            parameters["FORCE_CPU_ONLY_INPUT_TENSORS"] = "no"
    obeyed = (backend or runtime).gpu_settings if is_gpu_alone and case.model.batched else ()
    for name in ("cuda_graphs", "prefer_nhwc"):
        if getattr(deployment, name) and name not in obeyed:
            what = f"{case.format.label} {'natively' if native else 'on the Python backend'} does not do that"
            fix = "omit it; on a GPU, ONNX Runtime on the Python backend does both, tensorrt CUDA graphs"
            raise InputError(what, where=f"--deployment {name}=true", fix=fix)
    joins_requests = scenario == "online" and not case.model.takes_single_rows
    if joins_requests and is_gpu_alone and backend is None and runtime.pads_batches:
        parameters["sizes"] = ",".join(map(str, _padded_sizes(deployment)))
    for key, value in parameters.items():
        config.parameters[key].string_value = value
    for tensors, entries in ((case.model.inputs, config.input), (case.model.outputs, config.output)):
        for tensor in tensors:
            entry = entries.add(name=tensor.name, **_type_and_shape(case, tensor))
            if tensor.is_scalar:
                entry.reshape.CopyFrom(pb.ModelTensorReshape(shape=entry.dims[:-1]))
    # Without GPU numbers Triton takes all GPUs: eight would count as one. Source: src/model_config_utils.cc.
    group = config.instance_group.add(count=deployment.instances, kind=pb.ModelInstanceGroup.KIND_CPU)
    if case.target.device == "cuda":
        group.kind = pb.ModelInstanceGroup.KIND_GPU
        group.gpus.extend(range(case.gpus))
    if joins_requests:
        config.dynamic_batching.preferred_batch_size.extend(deployment.preferred_batch_sizes)
        config.dynamic_batching.max_queue_delay_microseconds = deployment.max_queue_delay_us
    _add_optimisation(config, case, deployment, engines)
    if deployment.warmup:
        _add_warmup(config, case, deployment, scenario)
    return config


def _padded_sizes(deployment: Deployment) -> list[int]:
    """The sizes to which a runtime pads batches: powers of two, preferred ones, the largest."""
    largest = deployment.max_batch_size
    powers = {1 << bits for bits in range(largest.bit_length())}
    return sorted(powers | set(deployment.preferred_batch_sizes) | {largest})


def _add_optimisation(config: "ModelConfig", case: Case, deployment: Deployment, engines: str) -> None:
    accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
    if case.target.device == "cuda":
        config.optimization.cuda.graphs = deployment.cuda_graphs
        if config.backend == "onnxruntime" and case.accelerator is None:
            # Its CUDA provider's option. Source: src/onnxruntime.cc of onnxruntime_backend r24.10.
            accelerators.add(name="cuda").parameters["use_tf32"] = tf32_setting(deployment.tf32)["tf32"]
    if case.accelerator == "trt":
        accelerator = accelerators.add(name="tensorrt")
        accelerator.parameters["precision_mode"] = case.precision.upper()
        accelerator.parameters["max_workspace_size_bytes"] = str(1 << 30)
        if engines:
            for cache in ("engine", "timing"):
                accelerator.parameters[f"trt_{cache}_cache_enable"] = "1"
                accelerator.parameters[f"trt_{cache}_cache_path"] = engines


def _add_warmup(config: "ModelConfig", case: Case, deployment: Deployment, scenario: Scenario) -> None:
    """Add a warm-up with zeros at batch 1 and the largest batch, on a GPU at every other size of the batcher
    too: there the first batch of a size chooses its kernels, in seconds. Offline has no batcher, and each
    load point warms up its own size. As the largest is second, TensorRT builds for all sizes at once."""
    from tritonclient.grpc import model_config_pb2 as pb

    on_cpu = case.target.device == "cpu"
    # On a CPU a volume takes ten seconds, and every load point warms up as well.
    repeats = 1 if has_large_tensors(case) and on_cpu else 3
    largest = deployment.max_batch_size
    counts = dict.fromkeys((1, largest), repeats)
    if scenario == "online" and not on_cpu:
        preferred = deployment.preferred_batch_sizes
        counts |= {size: repeats if size in preferred else 1 for size in range(2, largest)}
    for batch, count in counts.items():
        warmup = config.model_warmup.add(name=f"batch-{batch}", batch_size=batch, count=count)
        for tensor in case.model.inputs:
            zeros = pb.ModelWarmup.Input(zero_data=True, **_type_and_shape(case, tensor))
            warmup.inputs[tensor.name].CopyFrom(zeros)


def _type_and_shape(case: Case, tensor: Tensor) -> dict[str, Any]:
    """A tensor's type and shape for a configuration: with a batch axis only if the model takes one row."""
    data_type = "TYPE_STRING" if tensor.dtype == "BYTES" else f"TYPE_{tensor.dtype}"
    has_one_row = case.model.batch_axis == "one row"
    return {"data_type": data_type, "dims": (1, *tensor.shape) if has_one_row else tensor.shape}


def config_text(config: "ModelConfig") -> str:
    from google.protobuf import text_format

    return str(text_format.MessageToString(config))


def config_json(config: "ModelConfig") -> str:
    """The configuration for Triton's load API."""
    from google.protobuf import json_format

    return str(json_format.MessageToJson(config, preserving_proto_field_name=True))


def apply_variant(config: "ModelConfig", completed: "ModelConfig", variant: ConfigVariant) -> "ModelConfig":
    """`config` with a variant's settings; `completed`, the server's version of it, shows its instances."""
    changed = type(config)()
    changed.CopyFrom(config)
    count = variant.deployment.instances
    if len(changed.instance_group) == 1:
        changed.instance_group[0].count = count
    elif not changed.instance_group and [group.count for group in completed.instance_group] != [count]:
        changed.instance_group.add(count=count, kind=completed.instance_group[0].kind)
    if completed.max_batch_size > 1:
        if variant.joins_requests:
            changed.dynamic_batching.SetInParent()
            changed.dynamic_batching.preferred_batch_size[:] = variant.deployment.preferred_batch_sizes
            changed.dynamic_batching.max_queue_delay_microseconds = variant.deployment.max_queue_delay_us
        else:
            changed.ClearField("dynamic_batching")
    return changed


_NO_CODE = re.compile(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|#.*')
"""Strings and comments, whose brackets open nothing."""


def changed_config_text(text: str, config: "ModelConfig", wanted: "ModelConfig") -> str:
    """The text of a config.pbtxt, parsed as `config`, with the instances and batching of `wanted`; all other
    lines and comments stay. If that fails, as with several fields on a line, all text is written anew."""
    from google.protobuf import text_format

    if config == wanted:
        return text
    kept_lines: list[str] = []
    depth, is_varied = 0, False
    for line in text.splitlines(keepends=True):
        code = _NO_CODE.sub("", line)
        if depth == 0 and code.strip():
            is_varied = re.match(r"\s*(instance_group|dynamic_batching)\b", code) is not None
        depth += sum(map(code.count, "[{")) - sum(map(code.count, "]}"))
        kept_lines += [] if is_varied and code.strip() else [line]
    fields = type(wanted)(instance_group=wanted.instance_group)
    if wanted.HasField("dynamic_batching"):
        fields.dynamic_batching.CopyFrom(wanted.dynamic_batching)
    changed = "".join(kept_lines).rstrip() + "\n" + config_text(fields)
    with contextlib.suppress(text_format.ParseError):
        if text_format.Parse(changed, type(wanted)(), allow_unknown_field=True) == wanted:
            return changed
    return config_text(wanted)


def config_diff(name: str, before: str, after: str) -> str:
    """The change of a model's config.pbtxt, for `patch -p1` in the repository's folder; empty without one."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    old_file = f"a/{name}/config.pbtxt" if before else "/dev/null"
    lines = difflib.unified_diff(old, new, old_file, f"b/{name}/config.pbtxt")
    cut = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + cut for line in lines)
