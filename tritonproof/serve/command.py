"""The command line, the environment and the ports with which a Triton is started; starts none."""

import contextlib
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tritonproof.base.errors import SetupError
from tritonproof.host.process import DOCKER_VARIABLES, ProgramError, minimal_environment, run_program
from tritonproof.serve import wheels
from tritonproof.serve.backends import local_backends, python_stub
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Device

KEY = secrets.token_hex(16)
"""The key that our servers demand for loading models, which are code: any user reaches their ports."""
_KEY_OPTIONS = ("grpc-restricted-protocol", "http-restricted-api")
"""The options by which a tritonserver demands a key; one whose help lacks either is started without a key."""
_KEY_APIS = "model-repository,trace,logging"
"""What loads models or writes files; the load generator does neither. Source: RESTRICTED_CATEGORY_NAMES in
src/restricted_features.h of github.com/triton-inference-server/server, r24.10."""
_KEY_NAME = "tritonproof-key"
KEY_HEADER = f"triton-grpc-protocol-{_KEY_NAME}"
"""The header with the key over gRPC. Source: kRestrictedProtocolHeaderTemplate in src/grpc/grpc_server.h."""
_CLIENT_MEMORY_OPTION = "--allow-client-shm"
_CLIENT_MEMORY_OPTION_SINCE = "26.04"
"""The first release whose clients may register shared memory only if the server was started with this option,
which earlier releases reject. Source: src/command_line_parser.cc."""
MODELS = "models"
"""The name in a server's folder of the link to its model repository."""
ANSWER_S = 20.0
"""Seconds for a tritonserver's help, and for an answer of the Docker engine that needs no network."""


@dataclass(frozen=True)
class Ports:
    http: int
    grpc: int
    metrics: int


def free_ports() -> Ports:
    """Three free ports on loopback; another program may still take one before the server does."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return Ports(*(sock.getsockname()[1] for sock in sockets))


def common_options(name: str, repository: Path | str, address: str, ports: Ports) -> list[str]:
    return [
        f"--id={name}",
        f"--model-repository={repository}",
        "--model-control-mode=explicit",
        "--strict-readiness=false",
        "--exit-timeout-secs=3",
        *(f"--{service}-address={address}" for service in vars(ports)),
        *(f"--{service}-port={port}" for service, port in vars(ports).items()),
    ]


def key_options(key: str | None) -> list[str]:
    """The options by which a tritonserver demands the key, if there is one, for loading models."""
    return [f"--{name}={_KEY_APIS}:{_KEY_NAME}={key}" for name in _KEY_OPTIONS if key is not None]


def client_memory_options(name: str | None) -> list[str]:
    """The options that let a release's clients use shared memory; an unknown release counts as the newest."""
    return [f"{_CLIENT_MEMORY_OPTION}=true"] if name is None or name >= _CLIENT_MEMORY_OPTION_SINCE else []


def server_environment(
    spec: ServerSpec, device: Device, folder: Path, variables: Mapping[str, str]
) -> dict[str, str]:
    """The minimal environment in which a server finds its libraries, with `variables`; the device "cpu" hides
    all GPUs. For a container it is that of Docker's client, which gets no `variables` and hides no GPU. The
    embedded server's files go to `folder`. Raises SetupError if that server lacks a library."""
    if spec.kind == "docker":
        return minimal_environment(DOCKER_VARIABLES)
    environment = minimal_environment()
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    environment |= variables
    if spec.kind == "local" and not python_stub(local_backends(spec.location)).is_file():
        return environment
    libraries = [environment.get("LD_LIBRARY_PATH", "")]
    if spec.kind == "embedded":
        environment["TMPDIR"] = str(folder)
        libraries = [str(wheels.libpython()), str(wheels.triton_libraries()), *libraries]
    else:
        # Last, so that the server finds its own libraries first. A server with native backends may need none.
        with contextlib.suppress(SetupError):
            libraries.append(str(wheels.libpython()))
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    # Triton's stub runs the first `python3`, which needs the runtimes' packages; no model loads without bash.
    path = ":".join(filter(None, (str(Path(sys.executable).parent), environment.get("PATH", ""))))
    environment["PATH"] = path if shutil.which("bash", path=path) else f"{path}:{os.defpath}"
    return environment


def server_command(
    spec: ServerSpec, ports: Ports, folder: Path, shared_memory: str, key: str | None
) -> tuple[list[str], Path]:
    """The command that starts a server outside of containers, and the folder of its backends. `folder`, whose
    name is the server's and that of its Python backend's segments, has the link MODELS to the repository, and
    gets the embedded server's backends. With a `key`, which a tritonserver takes only on the command line,
    nobody else may load models. Raises SetupError if something is missing."""
    if spec.kind == "local":
        program, backends = spec.location, local_backends(spec.location)
    else:
        program = str(wheels.embedded_triton() / "bin" / "tritonserver")
        backends = wheels.backend_folder(folder)
    command = [
        program,
        *common_options(folder.name, folder / MODELS, "127.0.0.1", ports),
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={folder.name}",
    ]
    if spec.kind == "embedded":
        return command + key_options(key), backends
    help_text = ""  # its release is unknown, and an unknown option ends it
    with contextlib.suppress(ProgramError):
        ended = run_program([program, "--help"], environment=minimal_environment(), limit_s=ANSWER_S)
        help_text = ended.text + ended.error_text
    if shared_memory != "none" and _CLIENT_MEMORY_OPTION in help_text:
        command += client_memory_options(None)
    knows_keys = set(_KEY_OPTIONS) <= set(re.findall(r"--([a-z-]+)", help_text))
    return command + (key_options(key) if knows_keys else []), backends
