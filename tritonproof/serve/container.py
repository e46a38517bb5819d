"""How NVIDIA's container is started: its command, engine, image (release, content) and GPUs; starts none."""

import contextlib
import csv
import io
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tritonproof.base.errors import SetupError
from tritonproof.frameworks import NO_TELEMETRY
from tritonproof.host import machine, process
from tritonproof.host.process import ProgramError
from tritonproof.serve import server_spec
from tritonproof.serve.command import ANSWER_S, MODELS, Ports, common_options, key_options
from tritonproof.serve.server_spec import ContainerImage, ServerSpec
from tritonproof.spec import Device

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


def docker_command(
    image: ContainerImage,
    ports: Ports,
    folder: Path,
    gpus: Sequence[str],
    shared_memory: str,
    variables: Mapping[str, str],
    key: str | None,
) -> list[str]:
    """The command of NVIDIA's container, named like its `folder`, its models read-only, ports on loopback.

    It gets the GPUs with the UUIDs `gpus`; `--gpus=all` would include those that CUDA_VISIBLE_DEVICES hides.
    With `shared_memory` "system" it shares the host's, where perf_analyzer puts its tensors; with "cuda" the
    host's processes too, as CUDA's handles are the host's. With a `key` nobody else may load models.
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
    fields = ["type=bind", f"source={(folder / MODELS).resolve()}", "target=/models", "readonly"]
    csv.writer(mount, lineterminator="").writerow(fields)
    return [
        *("docker", "run", "--rm", f"--name={folder.name}"),
        *gpu_options,
        *_SHARED_WITH_CONTAINER[shared_memory],
        *(f"--env={name}={value}" for name, value in {**NO_TELEMETRY, **hidden, **variables}.items()),
        *(f"--publish=127.0.0.1:{outer}:{inner}" for outer, inner in published),
        f"--mount={mount.getvalue()}",
        image.name,
        "tritonserver",
        *common_options(folder.name, "/models", "0.0.0.0", container_ports),
        *(server_spec.client_memory_options(image.release) if shared_memory != "none" else ()),
        *key_options(key),
    ]


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
    engine, name = check_docker(), server_spec.image_of(spec)
    where, image = f"--triton docker:{name}", local_image(name)
    if image is None:
        raise SetupError("the Docker engine does not have the image", where=where, fix=f"docker pull {name}")
    for gpu in machine.gpus() if device == "cuda" else ():
        if reason := image.release and server_spec.why_unsupported(image.release, gpu.compute_capability):
            problem = f"Triton {image.release} does not run on this GPU: {gpu.name} is {reason}"
            fitting = server_spec.default_image(gpu.compute_capability)
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
        release=versions.get("NVIDIA_TRITON_SERVER_VERSION") or server_spec.release_of_image(name),
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
        return process.run_program(["docker", *words], environment=variables, limit_s=ANSWER_S)
    except ProgramError as error:
        raise _no_engine(str(error)) from error


def _no_engine(why: str) -> SetupError:
    fix = "start one, or use --triton embedded"
    if "permission denied" in why:
        fix = "sudo usermod -aG docker $USER, then log in again; or use rootless Docker"
    return SetupError(f"no Docker engine answers this user: {why}", where="--triton docker", fix=fix)
