"""A case that the suite converts: where its build, its server and its expected answers come from."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tritonproof.build import baseline_builds, builds, runtime_files
from tritonproof.build.builds import CaseBuild, private_copy
from tritonproof.client.requests import LoadedAs
from tritonproof.host.machine import tf32_environment
from tritonproof.host.scratch import scratch_folder
from tritonproof.host.targets import runs_here
from tritonproof.record.quantities import DURATION, SIZE
from tritonproof.record.setup import ConfigVariant, Deployment, Scenario
from tritonproof.run.once import once
from tritonproof.run.prepared_case import CaseScope
from tritonproof.serve.launch import native_backend
from tritonproof.serve.loading import check_supported, load_build, load_folder
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.settings.case_settings import deployment_of, samples_of
from tritonproof.settings.settings import Settings
from tritonproof.spec import Arrays, Case, Device, FrameworkModel, OnProgress, Samples

_KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
"""The environment variables of glibc for what tritonproof/runtimes/pytorch.py sets with mallopt."""
_PINNED_BYTES, _CUDA_BYTES = 256 << 20, 64 << 20
"""Triton's default pools of pinned and CUDA memory, the smallest here. Source: tritonserver --help."""
_BATCHES_PER_INSTANCE = 2
"""How many batches of each instance the pools hold: one is computed while the next is gathered. Beyond its
pools Triton allocates unpinned memory for each request, which is slow; nnU-Net's four volumes take 134 MB."""


@dataclass(eq=False)
class ConvertedCase:
    """A `PreparedCase` that the suite converts and loads into a Triton that it has started."""

    scope: CaseScope
    building: contextlib.AbstractContextManager[CaseBuild]
    """Yields the build, which exists for the length of the block."""
    keeps_config: bool = False
    """Whether the build's own config.pbtxt serves it, instead of the run's settings."""

    described = loaded = None

    @property
    def case(self) -> Case:
        return self.scope.requested

    @property
    def samples(self) -> Samples:
        return self.scope.model_run.samples

    @property
    def deployment(self) -> Deployment:
        return deployment_of(self.case, self.scope.settings)

    @once
    def build(self) -> CaseBuild:
        return self.scope.stack.enter_context(self.building)

    @once
    def server(self) -> Server:
        """The Triton of the case. The model is built first, as a server without its model repository ends."""
        scope, deployment = self.scope, self.deployment
        triton = scope.open_server(
            self.build.folder.parent,
            variables=server_variables(scope.settings.triton, self.case, deployment),
            options=pool_options(self.case, deployment, self.case.gpus),
        )
        with scope.model_run.hold_machine(exclusive=False):
            return scope.stack.enter_context(triton)

    def open_in_process(self) -> Callable[[Arrays], Arrays]:
        engines = runtime_files.engine_folder(self.build.case, self.build.facts.digest)
        with self.scope.model_run.hold_machine(exclusive=False):
            return runtime_files.open_in_process(self.case, self.build.artifact, self.deployment, engines)

    def variant_for(self, scenario: Scenario) -> ConfigVariant:
        return ConfigVariant(scenario, self.deployment)

    def load(self, variant: ConfigVariant) -> LoadedAs:
        check_supported(self.server, self.case)
        if not self.keeps_config:
            backend = load_build(self.server, self.build, variant)
        else:
            config = baseline_builds.config_of(self.build.folder)
            of_scenario = baseline_builds.for_scenario(config, self.case, variant.scenario)
            load_folder(self.server, self.build.folder, of_scenario)
            backend = str(config.backend or config.platform)
        return LoadedAs(variant, backend, joins_requests=variant.joins_requests)


def server_variables(spec: ServerSpec, case: Case, deployment: Deployment) -> Mapping[str, str]:
    """The environment variables by which a server that we start computes as the suite's runtime does.

    TF32 needs them, because only Triton's onnxruntime backend has a parameter for it. Triton's pytorch
    backend also makes glibc return freed memory to the kernel, which the runtime keeps: ResNet50 at 32 x 32
    reached 464 images per second instead of 674. Raises NotAvailableError for a case it cannot serve.
    """
    variables = {} if deployment.tf32 is None else tf32_environment(deployment.tf32)
    backend = case.format.backend
    returns_memory = backend is not None and backend.returns_freed_memory and case.target.device == "cpu"
    may_keep = returns_memory and spec.kind == "local" and not runtime_files.has_large_tensors(case)
    if may_keep and native_backend(spec, case.format) is not None:
        return {**_KEEP_FREED_MEMORY, **variables}
    return variables


def pool_options(case: Case, deployment: Deployment, gpus: int = 1) -> list[str]:
    """The options that size the server's memory pools for the case's largest batches; none on a CPU."""
    if case.target.device == "cpu":
        return []
    row_bytes = sum(tensor.row_bytes for tensor in (*case.model.inputs, *case.model.outputs))
    per_gpu = row_bytes * deployment.max_batch_size * deployment.instances * _BATCHES_PER_INSTANCE
    sizes, mib = (max(_PINNED_BYTES, per_gpu * gpus), max(_CUDA_BYTES, per_gpu)), 1 << 20
    pinned, cuda = (mib * math.ceil(size / mib) for size in sizes)
    cuda_options = [f"--cuda-memory-pool-byte-size={gpu}:{cuda}" for gpu in range(gpus)]
    return [f"--pinned-memory-pool-byte-size={pinned}", *cuda_options]


@contextlib.contextmanager
def converted_build(scope: CaseScope) -> Iterator[CaseBuild]:
    """The converted case, in its folder of --model-repos. A case of a GPU that is not here (--convert-only)
    is converted on this machine's CPU and removed after the block: a run on that GPU would not reuse the
    build, as that run converts with the packages for GPUs."""
    case, settings, model_run = scope.requested, scope.settings, scope.model_run
    is_here = runs_here(case.target)
    with contextlib.ExitStack() as stack:
        if not is_here:
            folder = stack.enter_context(scratch_folder("conversion"))
            settings = dataclasses.replace(settings, model_repos=folder)
        with model_run.hold_machine(exclusive=False):
            scope.say("convert")
            device: Device | None = None if is_here else "cpu"
            build = build_case(case, model_run.framework_model_on_cpu, settings, scope.say, device=device)
        size, took = SIZE.text(build.facts.size_mib), DURATION.text(build.facts.build_time_s)
        if is_here:
            scope.note(f"{case}: built in {took}{', reused' if build.reused else ''} ({size})")
            build = stack.enter_context(private_copy(build, on_progress=scope.say))
        else:
            scope.note(f"{case}: can be converted ({size}); {case.target.label} converts its own")
        yield build


def build_case(
    case: Case,
    framework_model: FrameworkModel,
    settings: Settings,
    on_progress: OnProgress,
    *,
    device: Device | None = None,
) -> CaseBuild:
    """Convert the case for the server that --triton names, on its target's kind of device or `device`."""
    return builds.build(
        case,
        framework_model,
        deployment_of(case, settings),
        settings.model_repos,
        native=native_backend(settings.triton, case.format) is not None,
        samples=lambda split: samples_of(case.network_model, split, settings),
        on_progress=on_progress,
        device=device,
        datasets=settings.dataset,
    )
