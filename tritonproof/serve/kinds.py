"""What differs between the kinds of Triton that this suite starts, and what they share. `KINDS` of launch.py
lists them: those of local.py are programs on this machine, that of container.py is NVIDIA's container."""

import contextlib
import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Format, NativeBackend

_KEY = secrets.token_hex(16)
"""The key that our servers demand for loading models, which are code: any user reaches their ports."""
KEY_OPTIONS = ("grpc-restricted-protocol", "http-restricted-api")
"""The options by which a tritonserver demands a key; one that lacks either is started without a key."""
_KEY_APIS = "model-repository,trace,logging"
"""The APIs that load models or write files; the load generator uses none. Source: RESTRICTED_CATEGORY_NAMES
in src/restricted_features.h of github.com/triton-inference-server/server, r24.10."""
_KEY_NAME = "tritonproof-key"
KEY_HEADERS = {f"triton-grpc-protocol-{_KEY_NAME}": _KEY}
"""The header with the key over gRPC. Source: kRestrictedProtocolHeaderTemplate in src/grpc/grpc_server.h."""
CLIENT_MEMORY_OPTION = "allow-client-shm"
"""The option without which clients of newer releases' servers may not register shared memory."""
_NO_AUTO_COMPLETE = "--disable-auto-complete-config"
"""Without it the Python backend starts each model twice: an ONNX model loads in 2.2 s, not in 0.6."""
MODELS = "models"
"""The name in a server's folder of the link to its model repository."""
ANSWER_S = 20.0
"""Seconds for a tritonserver's help, and for an answer of the Docker engine that needs no network."""


@dataclass(frozen=True)
class Ports:
    http: int
    grpc: int
    metrics: int


@dataclass(frozen=True)
class ContainerImage:
    """An image of Triton's container, and what is known of its content."""

    name: str
    """The image's name on the command line, such as nvcr.io/nvidia/tritonserver:24.10-py3."""
    digest: str | None = None
    """The registry's digest, sha256:...; None if the image never was in a registry."""
    release: str | None = None
    """NVIDIA's release that the image is, or is made from, such as 24.10; None if unknown."""
    tensorrt: str | None = None
    """The version of the image's TensorRT; None if unknown."""
    in_podman: bool = False
    """Whether the engine is podman, which gives a container GPUs only as CDI devices."""


@dataclass(frozen=True)
class ServerProgram:
    """What is started as a server, and what is known of it before it runs: of a remote server, nothing."""

    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    backends: Path | None = None
    """The folder of the server's backends; None for a container."""
    image: ContainerImage | None = None
    """The image of the server's container; None for a program on this machine."""
    tensorrt: str | None = None
    """The version of the server's own TensorRT."""
    cleanup: Sequence[str] = ()
    """The command that removes what outlives the server."""


@dataclass(frozen=True)
class Kind:
    """A kind of Triton that this suite starts, by functions of the one that the user named."""

    program_of: Callable[[ServerSpec, ServerSetup, Ports, Path], ServerProgram]
    """The program for these ports and a folder, in which are the link MODELS to the repository and its files,
    and whose name the server and its segments get. Raises SetupError if a part is missing or does not fit."""
    native_backend: Callable[[ServerSpec, Format], NativeBackend | None] = lambda _spec, _format: None
    """The format's own backend if the server has it. If not, the suite's runtime serves the format, on
    Triton's Python backend. Raises NotAvailableError if the server has neither."""
    tensorrt_of: Callable[[ServerSpec], str | None] = lambda _spec: None
    """The version of the server's own TensorRT; None if unknown."""
    purpose: str = "server"
    """The purpose in the name of the server's folder."""
    ready_s: float = 60.0
    """Seconds for a server to become ready; on this machine, without models, one takes about one second."""
    stop_s: float = 0.0
    """Seconds from SIGTERM until the server is killed. Triton takes two or three to let go of a model; the
    guard removes whatever a killed server leaves."""


def free_ports() -> Ports:
    """Three free ports on loopback; another program may still take one before the server does."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return Ports(*(sock.getsockname()[1] for sock in sockets))


def server_options(
    setup: ServerSetup, name: str, models: Path | str, address: str, ports: Ports, known: Collection[str]
) -> list[str]:
    """The options of a tritonserver with this name, models, address and ports. Of KEY_OPTIONS and
    CLIENT_MEMORY_OPTION, which not every release has, it gets those that are `known`."""
    options = [
        f"--id={name}",
        f"--model-repository={models}",
        "--model-control-mode=explicit",
        "--strict-readiness=false",
        "--exit-timeout-secs=3",
        *(f"--{service}-address={address}" for service in vars(ports)),
        *(f"--{service}-port={port}" for service, port in vars(ports).items()),
    ]
    if setup.shared_memory != "none" and CLIENT_MEMORY_OPTION in known:
        options.append(f"--{CLIENT_MEMORY_OPTION}=true")
    if {*KEY_OPTIONS} <= {*known}:  # a tritonserver takes keys only on the command line
        options += [f"--{option}={_KEY_APIS}:{_KEY_NAME}={_KEY}" for option in KEY_OPTIONS]
    return [*options, *([] if setup.auto_complete else [_NO_AUTO_COMPLETE]), *setup.options]
