"""Which Triton is asked for, by `--triton` and `--against-triton`, how it is reached, and for what."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.serve.connection import PLAIN, ServerAccess, check_certificates, headers_in
from tritonproof.spec import Device

ServerKind = Literal["embedded", "local", "docker", "remote"]
"""Where a Triton is: in PyPI's wheel; a program on this machine; in a container; run by somebody else."""
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


@dataclass(frozen=True)
class ServerSetup:
    """What a run asks of a Triton that it starts, which loads none of its models by itself."""

    repository: Path
    log: Path
    """The file for the server's output."""
    device: Device
    """Where the server computes; "cpu" hides all GPUs."""
    shared_memory: str = "system"
    """How tensors will reach the server ("system", "cuda" or "none"), which a container must allow."""
    variables: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    """Further options of the server's command, as `variables` are further ones of its environment."""
    auto_complete: bool = False
    """Whether the server completes configurations, as a user's server does."""


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
