"""The command line, the environment and the ports for starting a Triton, and the engine and the image of a
container: release, content, and access to the GPU. Starts none."""

import contextlib
import csv
import io
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tritonproof.base.errors import SetupError
from tritonproof.frameworks import NO_TELEMETRY
from tritonproof.host import machine
from tritonproof.host.process import DOCKER_VARIABLES, ProgramError, ProgramResult, minimal_environment, run
from tritonproof.serve import server_spec, wheels
from tritonproof.serve.backends import local_backends, python_stub
from tritonproof.serve.server_spec import ContainerImage, ServerSpec
from tritonproof.spec import Device

KEY = secrets.token_hex(16)
"""What our servers demand for loading models, which are code: any user reaches their ports."""
_KEY_OPTIONS = ("grpc-restricted-protocol", "http-restricted-api")
"""The options that make a tritonserver ask for a key; one whose help lacks either starts without."""
_KEY_APIS = "model-repository,trace,logging"
"""What loads models or writes files; the load generator does neither. Source: RESTRICTED_CATEGORY_NAMES in
src/restricted_features.h of github.com/triton-inference-server/server, r24.10."""
_KEY_NAME = "tritonproof-key"
KEY_HEADER = f"triton-grpc-protocol-{_KEY_NAME}"
"""The key's header over gRPC. Source: kRestrictedProtocolHeaderTemplate in src/grpc/grpc_server.h."""
MODELS = "models"
"""The link from the folder of a server on this machine to its model repository."""
_ANSWER_S = 20.0
"""Seconds for a tritonserver's help, and for an answer of the Docker engine that needs no network."""
_SHARED_WITH_CONTAINER = {
    # With --pid=host the server is not its container's first process, so --init would do nothing.
    "cuda": ("--ipc=host", "--pid=host"),
    "system": ("--init", "--ipc=host"),
    "none": ("--init", "--shm-size=2g"),
}
"""What a container shares with the host, by how tensors are sent. Source for CUDA: README.md of
github.com/triton-inference-server/client, on CUDA shared memory in containers."""


@dataclass(frozen=True)
class Ports:
    """The ports of a server's three services, on loopback."""

    http: int
    grpc: int
    metrics: int


def free_ports() -> Ports:
    """Three free loopback ports; another program may still take one before the server does."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return Ports(*(sock.getsockname()[1] for sock in sockets))


def _common_options(name: str, repository: Path | str, address: str, ports: Ports) -> list[str]:
    return [
        f"--id={name}",
        f"--model-repository={repository}",
        "--model-control-mode=explicit",
        "--strict-readiness=false",
        "--exit-timeout-secs=3",
        *(f"--{service}-address={address}" for service in vars(ports)),
        *(f"--{service}-port={port}" for service, port in vars(ports).items()),
    ]


def docker_command(
    image: ContainerImage,
    ports: Ports,
    folder: Path,
    gpus: Sequence[str],
    shared_memory: str,
    variables: Mapping[str, str],
) -> list[str]:
    """The command of NVIDIA's container, named like its `folder`, its models read-only, ports on loopback.

    It gets the GPUs with these UUIDs; `--gpus=all` would include those that CUDA_VISIBLE_DEVICES hides. With
    `shared_memory` "system" the container shares the host's, where perf_analyzer puts its tensors; with
    "cuda" the host's processes too, as CUDA's memory handles are the host's; else it gets its own.
    """
    container_ports = Ports(8000, 8001, 8002)
    published = zip(vars(ports).values(), vars(container_ports).values(), strict=True)
    # Docker reads the values as lines of CSV, in which a list needs quotes; in `--volume` a colon would end
    # the path. Podman before version 5 ignores `--gpus`: github.com/containers/podman, issue 19330.
    gpu_options = [f"--device=nvidia.com/gpu={gpu}" for gpu in gpus]
    if gpus and not image.in_podman:
        gpu_options = [f'--gpus="device={",".join(gpus)}"']
    mount = io.StringIO()
    fields = ["type=bind", f"source={(folder / MODELS).resolve()}", "target=/models", "readonly"]
    csv.writer(mount, lineterminator="").writerow(fields)
    return [
        *("docker", "run", "--rm", f"--name={folder.name}"),
        *gpu_options,
        *_SHARED_WITH_CONTAINER[shared_memory],
        *(f"--env={key}={value}" for key, value in {**NO_TELEMETRY, **variables}.items()),
        *(f"--publish=127.0.0.1:{outer}:{inner}" for outer, inner in published),
        f"--mount={mount.getvalue()}",
        image.name,
        "tritonserver",
        *_common_options(folder.name, "/models", "0.0.0.0", container_ports),
        *(server_spec.client_memory_options(image.release) if shared_memory != "none" else ()),
    ]


def server_environment(
    spec: ServerSpec, device: Device, folder: Path, variables: Mapping[str, str]
) -> dict[str, str]:
    """The minimal environment in which a server finds its libraries, with `variables` outside of containers;
    "cpu" hides all GPUs. The embedded server's files go to `folder`. Raises SetupError without a library."""
    environment = minimal_environment(DOCKER_VARIABLES if spec.kind == "docker" else ())
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if spec.kind == "docker":
        return environment
    environment |= variables
    if spec.kind == "local" and not python_stub(local_backends(spec.location)).is_file():
        return environment
    libraries = [environment.get("LD_LIBRARY_PATH", "")]
    if spec.kind == "embedded":
        environment["TMPDIR"] = str(folder)
        libraries = [str(wheels.libpython()), str(wheels.triton_libraries()), *libraries]
    else:
        # Last, so that the server finds its own libraries first; it may need none where it serves natively.
        with contextlib.suppress(SetupError):
            libraries.append(str(wheels.libpython()))
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    # Triton's stub runs the first `python3`, which must have the runtimes' packages; and without `bash`, one
    # of the system's programs, a model loads for ever.
    path = ":".join(filter(None, (str(Path(sys.executable).parent), environment.get("PATH", ""))))
    environment["PATH"] = path if shutil.which("bash", path=path) else f"{path}:{os.defpath}"
    return environment


def server_command(
    spec: ServerSpec,
    image: ContainerImage | None,
    ports: Ports,
    folder: Path,
    device: Device,
    shared_memory: str,
    variables: Mapping[str, str],
    key: str | None,
) -> tuple[list[str], Path | None]:
    """The command that starts the server, and the folder of its backends (None for a container's).

    `folder` names the server and its Python backend's segments. MODELS in it links to the repository; it also
    gets the embedded server's backends. `variables` are for a container. With a `key`, which a tritonserver
    takes only on the command line, nobody else may load models. Raises SetupError if something is missing.
    """
    key_options = [f"--{name}={_KEY_APIS}:{_KEY_NAME}={key}" for name in _KEY_OPTIONS if key is not None]
    if image is not None:
        gpus = [gpu.uuid for gpu in machine.gpus() if device == "cuda"]
        return docker_command(image, ports, folder, gpus, shared_memory, variables) + key_options, None
    if spec.kind == "local":
        program, backends = spec.location, local_backends(spec.location)
    else:
        program = str(wheels.embedded_triton() / "bin" / "tritonserver")
        backends = wheels.backend_folder(folder)
    command = [
        program,
        *_common_options(folder.name, folder / MODELS, "127.0.0.1", ports),
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={folder.name}",
    ]
    if spec.kind == "local":
        help_text = ""  # its release is unknown, and an unknown option ends it
        with contextlib.suppress(ProgramError):
            ended = run([program, "--help"], environment=minimal_environment(), limit_s=_ANSWER_S)
            help_text = ended.text + ended.error_text
        if shared_memory != "none" and server_spec.CLIENT_MEMORY_OPTION in help_text:
            command += server_spec.client_memory_options(None)
        if not set(_KEY_OPTIONS) <= set(re.findall(r"--([a-z-]+)", help_text)):
            key_options = []
    return command + key_options, backends


# --- the container engine -----------------------------------------------------------------------------------

CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where device specifications for containers lie: github.com/cncf-tags/container-device-interface."""


class Engine(msgspec.Struct):
    """What a container engine says about itself to `docker info`."""

    runtimes: dict[str, Any] | None = msgspec.field(default=None, name="Runtimes")
    devices: list[dict[str, Any]] | None = msgspec.field(default=None, name="DiscoveredDevices")
    host: dict[str, Any] | None = None
    """Podman's description of the host, which Docker lacks. Source: podman's libpod/define/info.go."""

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
        reason = image.release and server_spec.why_unsupported(image.release, gpu.compute_capability)
        if reason:
            problem = f"Triton {image.release} does not run on this GPU: {gpu.name} is {reason}"
            fitting = server_spec.default_image(gpu.compute_capability)
            raise SetupError(problem, where=where, fix=f"use --triton docker:{fitting}")
    return replace(image, in_podman=engine.is_podman)


def local_image(name: str) -> ContainerImage | None:
    """The release and content of an image that the engine has; None if it does not have it.
    NVIDIA's images, and those made from them, name their release and TensorRT in variables."""
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
    """The id of a container's first process; None if the engine says none, or is on another machine."""
    try:
        pid = _docker("inspect", "--type=container", "--format={{.State.Pid}}", name).text.strip()
        is_here = pid.isdecimal() and name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, SetupError):
        return None
    return int(pid) if is_here else None


def check_docker() -> Engine:
    """The container engine's description of itself. Raises SetupError with the engine's reason."""
    ended = _docker("info", "--format", "{{json .}}")
    if ended.status:
        lines = ended.error_text.strip().splitlines() or [f"docker info ended with status {ended.status}"]
        raise _no_engine(lines[-1])
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(ended.output, type=Engine)
    return Engine()


def _docker(*words: str) -> ProgramResult:
    """The output of the engine's client. Raises SetupError if it is missing or does not end."""
    environment = minimal_environment(DOCKER_VARIABLES)
    try:
        return run(["docker", *words], environment=environment, limit_s=_ANSWER_S)
    except ProgramError as error:
        raise _no_engine(str(error)) from error


def _no_engine(why: str) -> SetupError:
    fix = "start one, or use --triton embedded"
    if "permission denied" in why:
        fix = "sudo usermod -aG docker $USER, then log in again; or use rootless Docker"
    return SetupError(f"no Docker engine answers this user: {why}", where="--triton docker", fix=fix)
