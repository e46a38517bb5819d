"""NVIDIA's container: its releases, what they contain and run on, and how one is started; starts none."""

import contextlib
import csv
import io
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tritonproof.base.errors import NotAvailableError, SetupError
from tritonproof.frameworks import NO_TELEMETRY
from tritonproof.host import machine, process
from tritonproof.host.process import ProgramError
from tritonproof.serve import kinds
from tritonproof.serve.kinds import ContainerImage, Kind, Ports, ServerProgram
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Device, Format, NativeBackend

REPOSITORY = "nvcr.io/nvidia/tritonserver"


@dataclass(frozen=True)
class Release:
    """A monthly release of the container `tritonserver:YY.MM-py3`."""

    name: str
    """Year and month, such as 24.10: names sort by time."""
    triton: str
    onnxruntime: str
    torch: str | None
    """The version of the release's PyTorch; None if the sources do not say."""


# From the branches rYY.MM of github.com/triton-inference-server/server: build.py has the versions of Triton
# and ONNX Runtime, and the release of NVIDIA's PyTorch container that PyTorch comes from. Versions of some
# PyTorch are in docs/introduction/compatibility.md.
RELEASES = (
    Release("24.10", "2.51.0", "1.19.2", "2.5.0a0+e000cf0ad9"),
    Release("24.11", "2.52.0", "1.19.2", "2.6.0a0+df5bbc09d1"),
    Release("24.12", "2.53.0", "1.20.1", None),
    Release("25.01", "2.54.0", "1.20.1", "2.6.0a0+ecf3bae40a"),
    Release("25.02", "2.55.0", "1.20.1", None),
    Release("25.03", "2.56.0", "1.21.0", "2.7.0a0+7c8ec84dab"),
    Release("25.04", "2.57.0", "1.21.0", "2.7.0a0+79aa17489c"),
    Release("25.05", "2.58.0", "1.22.0", "2.8.0a0+5228986c39"),
    Release("25.06", "2.59.0", "1.22.0", "2.8.0a0+5228986c39"),
    Release("25.07", "2.59.1", "1.22.0", None),
    Release("25.08", "2.60.0", "1.23.0", None),
    Release("25.09", "2.61.0", "1.23.0", None),
    Release("25.10", "2.62.0", "1.23.1", "2.9.0a0+145a3a7bda"),
    Release("25.11", "2.63.0", "1.23.2", None),
    Release("25.12", "2.64.0", "1.23.2", "2.10.0a0+b4e4ee81d3"),
    Release("26.01", "2.65.0", "1.23.2", None),
    Release("26.02", "2.66.0", "1.24.1", None),
    Release("26.03", "2.67.0", "1.24.2", None),
    Release("26.04", "2.68.0", "1.24.4", None),
    Release("26.05", "2.69.0", "1.24.4", None),
    Release("26.06", "2.70.0", "1.24.4", None),
    Release("26.07", "2.71.0", "1.27.0", None),
    Release("26.08", "2.72.0", "1.28.0", None),
)
"""From the release of the embedded server's Triton to the newest whose sources were read."""
TENSORRT_ON_ANY_GPU_SINCE = "25.04"
"""The first release whose onnxruntime backend tells ONNX Runtime's TensorRT provider the instance's GPU; in
earlier ones it computes on the first. Source: onnxruntime_backend 3fbddc2, of 2025-03-13."""
_CLIENT_MEMORY_OPTION_SINCE = "26.04"
"""The first release whose clients may register shared memory only if the server was started with an option,
which earlier releases reject; an unknown release counts as new. Source: src/command_line_parser.cc."""
_DEFAULT_RELEASES = ("24.10", "25.02")
"""The default is the first that runs on the GPU: the embedded server's, or the last with TensorFlow."""
_FIRST_WITHOUT_VOLTA, _TURING = "24.11", (7, 5)
_FIRST_WITH_BLACKWELL, _BLACKWELL = "25.01", (10, 0)
"""NVIDIA's release notes: 24.10 is for compute capability 6.0 to 9.0, 25.01 for 7.5 to Blackwell's."""


def libraries(program: ServerProgram, triton: str) -> dict[str, str]:
    """The known versions of the libraries in a server's native backends, by their names on PyPI, from the
    release of its image, or else of the `triton` that it reports. A server on this machine may have other
    libraries, which its backends show."""
    release, backends = release_of(program.image, triton), program.backends
    versions = {
        "onnxruntime": release.onnxruntime if release else None,
        "torch": release.torch if release else None,
        "tensorrt": program.tensorrt,
    }
    if backends is not None:
        files = {"onnxruntime": "onnxruntime/libonnxruntime.so", "torch": "pytorch/libtorch_cpu.so"}
        versions |= {name: _in_folder(backends / path, versions[name]) for name, path in files.items()}
    return {name: version for name, version in versions.items() if version is not None}


def _in_folder(library: Path, of_release: str | None) -> str | None:
    """The version in a library's name (libonnxruntime.so.1.19.2), else the release's; None without a file."""
    suffixes = [path.name.removeprefix(library.name) for path in library.parent.glob(f"{library.name}*")]
    full = [suffix.removeprefix(".") for suffix in suffixes if re.fullmatch(r"\.\d+\.\d+\.\d+", suffix)]
    return full[0] if full else of_release if suffixes else None


def release_of_image(image: str) -> str | None:
    """The name of the release in the tag of an image of NVIDIA's; None for any other image."""
    match = re.search(r"(?:^|/)tritonserver:(\d\d\.\d\d)(?:-|$)", image)
    return match[1] if match and any(release.name == match[1] for release in RELEASES) else None


def release_of(image: ContainerImage | None, triton: str) -> Release | None:
    """A server's release, by its image, or else by the version that Triton reports."""
    if image is not None and image.release is not None:
        return next((entry for entry in RELEASES if entry.name == image.release), None)
    return next((entry for entry in RELEASES if entry.triton == triton), None)


def default_image(compute_capability: tuple[int, int] | None) -> str:
    """The default image for a GPU of this compute capability, or for a CPU (None)."""
    fitting = (name for name in _DEFAULT_RELEASES if why_unsupported(name, compute_capability) is None)
    return f"{REPOSITORY}:{next(fitting, _DEFAULT_RELEASES[-1])}-py3"


def why_unsupported(name: str, compute_capability: tuple[int, int] | None) -> str | None:
    """Why release `name` cannot run on a GPU of this capability, as the end of a sentence; None if it can."""
    if compute_capability is None:
        return None
    digits = ".".join(map(str, compute_capability))
    if compute_capability < _TURING and name >= _FIRST_WITHOUT_VOLTA:
        return f"of compute capability {digits}, and releases from {_FIRST_WITHOUT_VOLTA} on need 7.5"
    if compute_capability >= _BLACKWELL and name < _FIRST_WITH_BLACKWELL:
        return f"of compute capability {digits}, which is newer than releases before {_FIRST_WITH_BLACKWELL}"
    return None


def image_of(spec: ServerSpec) -> str:
    """A container's image: the user's, or else the default for this machine's GPU."""
    return spec.location or default_image(machine.compute_capability())


_SHARED_WITH_CONTAINER = {
    # With --pid=host the server is not its container's first process, so --init would do nothing.
    "cuda": ("--ipc=host", "--pid=host"),
    "system": ("--init", "--ipc=host"),
    "none": ("--init", "--shm-size=2g"),
}
"""The options for what a container shares with the host, by how tensors are sent. Source for CUDA: README.md
of github.com/triton-inference-server/client, on CUDA shared memory in containers."""
CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where device specifications for containers lie: github.com/cncf-tags/container-device-interface."""


def docker_program(
    image: ContainerImage, gpus: Sequence[str], setup: ServerSetup, ports: Ports, folder: Path
) -> ServerProgram:
    """NVIDIA's container, named like its `folder`, its models read-only, ports on loopback.

    It gets the GPUs with the UUIDs `gpus`; `--gpus=all` would include those that CUDA_VISIBLE_DEVICES hides.
    With the shared memory "system" it shares the host's, where perf_analyzer puts its tensors; with "cuda"
    the host's processes too, as CUDA's handles are the host's.
    """
    container_ports = Ports(8000, 8001, 8002)
    published = zip(vars(ports).values(), vars(container_ports).values(), strict=True)
    # Docker reads values as lines of CSV, in which a list needs quotes; in `--volume` a colon would end the
    # path, so `--mount` it is. Podman before 5 ignores `--gpus`: github.com/containers/podman, issue 19330.
    gpu_options = [f"--device=nvidia.com/gpu={gpu}" for gpu in gpus]
    if gpus and not image.in_podman:
        gpu_options = [f'--gpus="device={",".join(gpus)}"']
    # Otherwise NVIDIA's runtime, if it is Docker's default, gives all GPUs that the image's variable names.
    hidden = {} if gpus else {"NVIDIA_VISIBLE_DEVICES": "void"}
    mount = io.StringIO()
    fields = ["type=bind", f"source={(folder / kinds.MODELS).resolve()}", "target=/models", "readonly"]
    csv.writer(mount, lineterminator="").writerow(fields)
    is_older = image.release is not None and image.release < _CLIENT_MEMORY_OPTION_SINCE
    known = kinds.KEY_OPTIONS if is_older else (*kinds.KEY_OPTIONS, kinds.CLIENT_MEMORY_OPTION)
    arguments = [
        *("docker", "run", "--rm", f"--name={folder.name}"),
        *gpu_options,
        *_SHARED_WITH_CONTAINER[setup.shared_memory],
        *(f"--env={name}={value}" for name, value in {**NO_TELEMETRY, **hidden, **setup.variables}.items()),
        *(f"--publish=127.0.0.1:{outer}:{inner}" for outer, inner in published),
        f"--mount={mount.getvalue()}",
        image.name,
        "tritonserver",
        *kinds.server_options(setup, folder.name, "/models", "0.0.0.0", container_ports, known),
    ]
    environment = process.minimal_environment(process.DOCKER_VARIABLES)
    cleanup = ("docker", "rm", "--force", folder.name)
    return ServerProgram(arguments, environment, image=image, tensorrt=image.tensorrt, cleanup=cleanup)


class ContainerEngine(msgspec.Struct):
    """What a container engine reports about itself to `docker info`."""

    runtimes: dict[str, Any] | None = msgspec.field(default=None, name="Runtimes")
    devices: list[dict[str, Any]] | None = msgspec.field(default=None, name="DiscoveredDevices")
    host: dict[str, Any] | None = None
    """Podman's description of the host; Docker gives none. Source: podman's libpod/define/info.go."""

    @property
    def is_podman(self) -> bool:
        return self.host is not None

    def gives_gpus(self) -> bool:
        """Whether it can give a container GPUs: by NVIDIA's container toolkit, as a runtime or a hook on
        PATH, or as CDI devices, podman's only way. Source: daemon/nvidia_linux.go of github.com/moby/moby."""
        has_devices = any(str(device.get("ID")).startswith("nvidia.com/gpu") for device in self.devices or ())
        if self.is_podman or has_devices:
            return has_devices or any(any(folder.glob("*nvidia*")) for folder in CDI_FOLDERS)
        return "nvidia" in (self.runtimes or {}) or shutil.which("nvidia-container-runtime-hook") is not None


def prepare_image(spec: ServerSpec, device: Device) -> ContainerImage:
    """The image of a container to start. Raises SetupError without an engine or image that fits the GPU."""
    engine, name = check_docker(), image_of(spec)
    where, image = f"--triton docker:{name}", local_image(name)
    if image is None:
        raise SetupError("the Docker engine does not have the image", where=where, fix=f"docker pull {name}")
    for gpu in machine.gpus() if device == "cuda" else ():
        if reason := image.release and why_unsupported(image.release, gpu.compute_capability):
            problem = f"Triton {image.release} does not run on this GPU: {gpu.name} is {reason}"
            fitting = default_image(gpu.compute_capability)
            raise SetupError(problem, where=where, fix=f"use --triton docker:{fitting}")
    return replace(image, in_podman=engine.is_podman)


def local_image(name: str) -> ContainerImage | None:
    """The release and content of an image of the engine; None if the engine does not have it. NVIDIA's
    images, and those made from them, name their release and TensorRT in variables."""
    ended = _docker("image", "inspect", name)
    if ended.status:
        return None
    try:
        (about,) = msgspec.json.decode(ended.output, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, ValueError):
        return ContainerImage(name)
    pairs = (entry.partition("=")[::2] for entry in (about.get("Config") or {}).get("Env") or ())
    versions = {key: value for key, value in pairs if re.fullmatch(r"[0-9][0-9A-Za-z.+_-]{0,40}", value)}
    digests = [entry.partition("@")[::2] for entry in about.get("RepoDigests") or ()]
    matching = [digest for repository, digest in digests if name.startswith(repository)]
    return ContainerImage(
        name=name,
        digest=next(iter([*matching, *(digest for _, digest in digests)]), None),
        release=versions.get("NVIDIA_TRITON_SERVER_VERSION") or release_of_image(name),
        tensorrt=versions.get("TRT_VERSION"),
    )


def container_process(name: str) -> int | None:
    """The id of a container's first process; None if the engine gives none, or is on another machine."""
    try:
        pid = _docker("inspect", "--type=container", "--format={{.State.Pid}}", name).text.strip()
        is_here = pid.isdecimal() and name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, SetupError):
        return None
    return int(pid) if is_here else None


def check_docker() -> ContainerEngine:
    """The container engine's description of itself. Raises SetupError, with its reason, if none answers."""
    ended = _docker("info", "--format", "{{json .}}")
    if ended.status:
        lines = ended.error_text.strip().splitlines() or [f"docker info ended with status {ended.status}"]
        raise _no_engine(lines[-1])
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(ended.output, type=ContainerEngine)
    return ContainerEngine()


def _docker(*words: str) -> process.ProgramResult:
    """The result of the engine's client. Raises SetupError if the client is missing or does not end."""
    try:
        variables = process.minimal_environment(process.DOCKER_VARIABLES)
        return process.run_program(["docker", *words], environment=variables, limit_s=kinds.ANSWER_S)
    except ProgramError as error:
        raise _no_engine(str(error)) from error


def _no_engine(why: str) -> SetupError:
    fix = "start one, or use --triton embedded"
    if "permission denied" in why:
        fix = "sudo usermod -aG docker $USER, then log in again; or use rootless Docker"
    return SetupError(f"no Docker engine answers this user: {why}", where="--triton docker", fix=fix)


def _program_of(spec: ServerSpec, setup: ServerSetup, ports: Ports, folder: Path) -> ServerProgram:
    image = prepare_image(spec, setup.device)
    gpus = [gpu.uuid for gpu in machine.gpus() if setup.device == "cuda"]
    return docker_program(image, gpus, setup, ports, folder)


def _native_backend(_spec: ServerSpec, format_: Format) -> NativeBackend:
    if format_.backend is not None:
        return format_.backend
    servers = "embedded, local or HOST:PORT"
    raise NotAvailableError(f"{format_.name} needs a server with the suite's packages: {servers}")


def _tensorrt_of(spec: ServerSpec) -> str | None:
    image = local_image(image_of(spec))
    return image.tensorrt if image else None


# A slow disk has to read the 10 GB of an image that is here. Docker's own limit for stopping is 10 s.
CONTAINER = Kind(_program_of, _native_backend, _tensorrt_of, "container", ready_s=600.0, stop_s=10.0)
