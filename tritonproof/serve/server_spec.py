"""Which Triton to use: what `--triton` names, and what NVIDIA's container releases contain and run on."""

import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.host import machine
from tritonproof.host.machine import version_of
from tritonproof.serve.connection import PLAIN, ServerAccess, check_certificates, headers_in

ServerKind = Literal["embedded", "local", "docker", "remote"]
"""From PyPI's wheel; a program on this machine; in a container; run by somebody else."""
REPOSITORY = "nvcr.io/nvidia/tritonserver"


@dataclass(frozen=True)
class Release:
    """A monthly release of the container `tritonserver:YY.MM-py3`."""

    name: str
    """Year and month, such as 24.10: names sort by time."""
    triton: str
    onnxruntime: str
    torch: str | None
    """The version of its PyTorch; None if the sources do not say."""


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
CLIENT_MEMORY_OPTION = "--allow-client-shm"
_CLIENT_MEMORY_OPTION_SINCE = "26.04"
"""The first release whose clients may register shared memory only if the server was started with this option,
which earlier releases reject. Source: src/command_line_parser.cc."""
TENSORRT_ON_ANY_GPU_SINCE = "25.04"
"""The first release whose onnxruntime backend tells ONNX Runtime's TensorRT provider the instance's GPU; in
earlier ones it computes on the first. Source: onnxruntime_backend 3fbddc2, of 2025-03-13."""
_DEFAULT_RELEASES = ("24.10", "25.02")
"""The first that runs on the GPU is the default: the embedded server's, or the last with TensorFlow."""
_FIRST_WITHOUT_VOLTA, _TURING = "24.11", (7, 5)
_FIRST_WITH_BLACKWELL, _BLACKWELL = "25.01", (10, 0)
"""NVIDIA's release notes: 24.10 is for compute capability 6.0 to 9.0, 25.01 for 7.5 to Blackwell's."""


@dataclass(frozen=True)
class ContainerImage:
    """An image of Triton's container, and what is known of its content."""

    name: str
    """Its name on the command line, such as nvcr.io/nvidia/tritonserver:24.10-py3."""
    digest: str | None = None
    """The registry's digest, sha256:...; None if it never was in a registry."""
    release: str | None = None
    """NVIDIA's release that it is, or is made from, such as 24.10; None if unknown."""
    tensorrt: str | None = None
    """The version of its TensorRT; None if unknown."""
    in_podman: bool = False
    """Whether the engine is podman, which gives a container GPUs only as CDI devices."""


def libraries(
    kind: ServerKind, triton: str, image: ContainerImage | None, backends: Path | None = None
) -> dict[str, str]:
    """The known versions of the libraries in a server's native backends, by their names on PyPI, from the
    release of its image, or else of the `triton` that it reports. A server on this machine may have other
    libraries, which its `backends` show."""
    release = release_of(image, triton)
    versions = {
        "onnxruntime": release.onnxruntime if release else None,
        "torch": release.torch if release else None,
        "tensorrt": tensorrt_of(kind, image),
    }
    if backends is not None:
        files = {"onnxruntime": "onnxruntime/libonnxruntime.so", "torch": "pytorch/libtorch_cpu.so"}
        versions |= {name: _in_folder(backends / path, versions[name]) for name, path in files.items()}
    return {name: version for name, version in versions.items() if version is not None}


def _in_folder(library: Path, of_release: str | None) -> str | None:
    """The version in a library's name (libonnxruntime.so.1.19.2), else the release's; None without it."""
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


def tensorrt_of(kind: ServerKind, image: ContainerImage | None) -> str | None:
    """The version of a server's own TensorRT, by its image; None if unknown."""
    if image is not None:
        return image.tensorrt
    # In NVIDIA's container this process has the image's variables too.
    return os.environ.get("TRT_VERSION") if kind == "local" else None


def client_memory_options(name: str | None) -> list[str]:
    """The options that let a release's clients use shared memory; an unknown release counts as the newest."""
    return [f"{CLIENT_MEMORY_OPTION}=true"] if name is None or name >= _CLIENT_MEMORY_OPTION_SINCE else []


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


EMBEDDED_TRITON = "2.51.0"
"""The version of the Triton in nvidia-pytriton 0.7.0, which pyproject.toml pins."""
TRITON_VARIABLE = "TRITONPROOF_TRITON"
"""The variable with the path of a tritonserver with native backends, the default of `--triton`."""
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")
"""The name of an image, which cannot be an option of docker. Source: distribution's reference.go."""
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{1,45}\]):([0-9]{1,5})")
"""A host's name, as long as DNS allows (RFC 1035, 2.3.4), or an IPv6 address; and a port."""


@dataclass(frozen=True)
class ServerSpec:
    """The Triton that `--triton` names."""

    kind: ServerKind
    location: str = ""
    """A local program, a container's image (empty for the default), or a remote server's HOST:PORT."""
    access: ServerAccess = PLAIN

    @property
    def is_remote(self) -> bool:
        """Whether somebody else runs it, perhaps for others too: it and its models are never changed."""
        return self.kind == "remote"

    def __str__(self) -> str:
        if self.is_remote:
            return f"grpcs://{self.location}" if self.access.tls else self.location
        return f"{self.kind}:{self.location}" if self.location else self.kind


def with_access(spec: ServerSpec, ca: Path | None, header_file: Path | None) -> ServerSpec:
    """The server with the access of --triton-ca and --triton-headers. Raises InputError for a wrong file."""
    for check, file in ((check_certificates, ca), (headers_in, header_file)):
        if file is not None:
            check(file)
    return replace(spec, access=replace(spec.access, ca=ca, header_file=header_file))


def parse_server(text: str | None, option: str = "--triton") -> ServerSpec:
    """The server that an option's value names. The default is the local program in TRITONPROOF_TRITON, else
    `tritonserver` on PATH, else embedded. Raises InputError if it names no server, or a missing program."""
    where = f"{option} {text}"
    if text is None and (program := os.environ.get(TRITON_VARIABLE)):
        text, where = f"local:{program}", f"{TRITON_VARIABLE}={program}"
    if text is None:
        return ServerSpec("local", "tritonserver") if shutil.which("tritonserver") else ServerSpec("embedded")
    kind, colon, detail = text.partition(":")
    if text == "embedded":
        return ServerSpec("embedded")
    if kind == "local" and (detail or not colon):
        program = detail or "tritonserver"
        if shutil.which(program) is None:
            fix = "give its path, such as /opt/tritonserver/bin/tritonserver"
            raise InputError(f"there is no program {excerpt(program)!r}", where=excerpt(where), fix=fix)
        return ServerSpec("local", program)
    if kind == "docker" and (_IMAGE.fullmatch(detail) or not colon):
        return ServerSpec("docker", detail)
    scheme, _, rest = text.rpartition("://")
    match = _ADDRESS.fullmatch(rest)
    if match and 0 < int(match[1]) < 65536 and scheme in ("", "grpc", "grpcs") and kind != "embedded":
        return ServerSpec("remote", rest, ServerAccess(tls=scheme == "grpcs"))
    address = "HOST:PORT, or with TLS grpcs://HOST:PORT, of its gRPC endpoint (port 8001 by default)"
    fix = f"use embedded, local[:PATH], docker[:IMAGE], or for a server that runs {address}"
    raise InputError(f"unknown server {excerpt(text)!r}", where=option, fix=fix)


def image_of(spec: ServerSpec) -> str:
    """A container's image: the user's, or else the default for this machine's GPU."""
    return spec.location or default_image(machine.compute_capability())


def description(spec: ServerSpec) -> str:
    """The server in the header of a run."""
    if spec.kind == "embedded":
        wheel = f"nvidia-pytriton {version_of('nvidia-pytriton') or 'missing'}"
        return f"Triton {EMBEDDED_TRITON} embedded ({wheel}), served by Python-backend runtimes"
    if spec.is_remote:
        return f"Triton at {spec}"
    what = f"local {spec.location}" if spec.kind == "local" else f"container {image_of(spec)}"
    return f"{what}, native backends"
