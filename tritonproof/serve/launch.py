"""Starts a Triton and stops it in the end; or uses one that somebody else runs, and leaves it as it was."""

import contextlib
import dataclasses
import hashlib
import http.client
import itertools
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from tritonproof.base.errors import ProofError, SetupError
from tritonproof.base.sanitize import one_line
from tritonproof.host import machine
from tritonproof.host.process import PRIVATE_UMASK, guarded, how_ended, log_end
from tritonproof.host.scratch import report_full_disk, scratch_folder
from tritonproof.serve import command, connection
from tritonproof.serve.command import Ports
from tritonproof.serve.connection import client_error, error_text
from tritonproof.serve.container import docker_command, prepare_image
from tritonproof.serve.server import Server, tail_of
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Device, OnProgress

CONTAINER = "container"
"""The purpose in the name of a container's folder, and so in the container's name."""
READY_S = 60.0
"""Seconds for a server on this machine to become ready; without models it takes about one."""
_DOCKER_READY_S = 600.0
"""Seconds for a container to become ready whose image is here: a slow disk has to read 10 GB."""
_STOP_S = 0.0
"""Seconds from SIGTERM until a server on this machine is killed. Triton takes two or three to let go of a
model; the guard removes whatever a killed one leaves."""
_DOCKER_STOP_S = 10.0
"""Seconds for a container to stop, which is Docker's own default."""
_NO_AUTO_COMPLETE = "--disable-auto-complete-config"
"""Without it the Python backend starts each model twice: an ONNX model loads in 2.2 s, not in 0.6."""
_START_ATTEMPTS = 3
"""How often a server is started if other programs take its ports first."""


@contextlib.contextmanager
def serve(
    spec: ServerSpec,
    repository: Path,
    log: Path,
    *,
    device: Device,
    shared_memory: str = "system",
    variables: Mapping[str, str] = MappingProxyType({}),
    options: Sequence[str] = (),
    key: str | None = command.KEY,
    auto_complete: bool = False,
    on_progress: OnProgress = lambda _step: None,
) -> Iterator[Server]:
    """A ready server for the models below `repository`, none of them loaded; stopped at the end of the block.

    Afterwards only its output in the file `log` is left, whatever happens to this process. It computes on
    `device`. `shared_memory` ("system", "cuda" or "none") is how tensors will reach it, which a container
    must allow. `variables` and `options` extend its environment and command. Only who has the `key` can load
    models; without one, everybody can. With `auto_complete` it completes configurations, as a user's would.

    A remote server stays unchanged. Raises SetupError if a part is missing, ProofError if it does not start.
    """
    if spec.is_remote:
        with _remote_server(spec) as server:
            yield server
        return
    image = prepare_image(spec, device) if spec.kind == "docker" else None
    if not auto_complete:
        options = (_NO_AUTO_COMPLETE, *options)
    for _attempt in range(_START_ATTEMPTS):
        with contextlib.ExitStack() as stack:
            output, ports = stack.enter_context(_emptied_log(log)), command.free_ports()
            with report_full_disk(Path(tempfile.gettempdir())):
                # Its path needs no quoting in the shell that Triton's Python backend starts its stubs with.
                folder = stack.enter_context(scratch_folder("server" if image is None else CONTAINER))
                (folder / command.MODELS).symlink_to(repository.absolute(), target_is_directory=True)
                backends = None
                if image is None:
                    arguments, backends = command.server_command(spec, ports, folder, shared_memory, key)
                else:
                    gpus = [gpu.uuid for gpu in machine.gpus() if device == "cuda"]
                    arguments = docker_command(image, ports, folder, gpus, shared_memory, variables, key)
            on_progress(f"start Triton ({spec.kind})")
            started = time.monotonic()
            process = stack.enter_context(
                guarded(
                    [*arguments, *options],
                    environment=command.server_environment(spec, device, folder, variables),
                    output=output,
                    grace_s=_STOP_S if image is None else _DOCKER_STOP_S,
                    segments=[f"{re.escape(folder.name)}.*"],
                    remove=folder,
                    umask=PRIVATE_UMASK,
                    cleanup=["docker", "rm", "--force", folder.name] if image else (),
                )
            )
            client = connection.grpc_client(f"127.0.0.1:{ports.grpc}")
            stack.callback(client.close)
            if key is not None:
                connection.add_headers(client, {command.KEY_HEADER: key})
            limit_s = READY_S if image is None else _DOCKER_READY_S
            version = _wait_ready(process, client, ports, folder.name, log, limit_s)
            if version is None:
                continue  # another program took a port before the server did
            yield Server(
                spec,
                address=f"127.0.0.1:{ports.grpc}",
                version=version,
                log=log,
                client=client,
                http_address=f"127.0.0.1:{ports.http}",
                backends=backends,
                scratch=folder,
                pid=process.pid if image is None else None,
                process=process,
                ready_s=round(time.monotonic() - started, 3),
                device=device,
                image=image,
            )
            return
    raise ProofError(f"Triton found its ports in use, {_START_ATTEMPTS} times{tail_of(log)}")


def _emptied_log(log: Path) -> IO[bytes]:
    """The log of a server, emptied. Raises SetupError if it cannot be written."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("wb")
    except OSError as error:
        what = f"the server's log cannot be written: {error.strerror}"
        raise SetupError(what, where=log, fix="give another folder with --results") from error


def _wait_ready(
    process: "subprocess.Popen[bytes]", client: Any, ports: Ports, name: str, log: Path, limit_s: float
) -> str | None:
    """The version of the server as soon as it is ready; None if it ended because a port was taken."""
    deadline = time.monotonic() + limit_s
    while (left_s := deadline - time.monotonic()) > 0:
        if (status := process.poll()) is not None:
            text = log_end(log).lower()
            if "already in use" in text or "already allocated" in text:  # tritonserver's words, and Docker's
                return None
            raise ProofError(f"Triton {how_ended(status)} before it was ready{tail_of(log)}")
        version = _version_if_ready(client, ports, name, min(2.0, left_s))
        if version is not None:
            return version
        time.sleep(0.05)
    raise ProofError(f"Triton was not ready within {limit_s:.0f} s{tail_of(log)}")


def _version_if_ready(client: Any, ports: Ports, name: str, limit_s: float) -> str | None:
    """The version of the server called `name` once its three services answer, each within `limit_s`. Triton
    starts gRPC, HTTP and metrics in this order, and ends if a later port is taken. gRPC is asked last,
    because a refused channel waits a second before it tries again. Another name is another program's."""
    try:
        metadata = json.loads(connection.http_get(f"127.0.0.1:{ports.http}/v2", limit_s))
        if metadata["name"] != name:
            return None
        metrics = connection.http_get(f"127.0.0.1:{ports.metrics}/metrics", limit_s)
        if b"nv_" not in metrics or not client.is_server_ready(client_timeout=limit_s):
            return None
        return str(metadata["version"])
    except (client_error(), OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return None  # no answer, or not Triton's


# --- a Triton that somebody else runs -----------------------------------------------------------------------

_NAME_PREFIX = "-tritonproof-"
_OWN_NAME = re.compile(_NAME_PREFIX + r"(?P<scope>[0-9a-f]{12})-(?P<pid>[0-9]+)-(?P<started>[0-9]+)-[0-9]+")
_numbers = itertools.count(1)


@contextlib.contextmanager
def _remote_server(spec: ServerSpec) -> Iterator[Server]:
    """A remote server for the length of a block. Its end unloads the models of this run, and those that
    killed runs of this user left. Raises what `connect` raises."""
    server = dataclasses.replace(connect(spec), suffix=_new_suffix())
    with contextlib.closing(server.client):
        _unload(server, _is_orphaned)
        try:
            yield server
        finally:
            # By now the server lists what a killed run was loading when this one began.
            _unload(server, lambda name: name.endswith(server.suffix) or _is_orphaned(name))


def _unload(server: Server, is_ours: Callable[[str], bool]) -> None:
    """Unload the models whose name `is_ours`, as far as the server still answers."""
    with contextlib.suppress(Exception):  # tritonclient and grpc raise types of their own
        # The repository's index lacks the models that were sent with their files.
        for name in {model.name for model in server.statistics() if is_ours(model.name)}:
            server.unload(name)


def connect(spec: ServerSpec, *, answer_s: float = 10.0) -> Server:
    """A remote server of the Open Inference Protocol. Raises SetupError if none answers."""
    client = connection.grpc_client(spec.location, spec.access)
    try:
        if client.is_server_ready(client_timeout=answer_s):
            metadata = client.get_server_metadata(client_timeout=answer_s)
            # A Triton has the name that its --id gives it; other servers have their program's.
            is_triton = metadata.name == "triton" or "model_configuration" in metadata.extensions
            version = metadata.version if is_triton else f"{metadata.name} {metadata.version}"
            version = one_line(version, connection.MAX_VERSION_CHARS)  # it stands in records
            return Server(spec, spec.location, version, None, client)
        problem = "the server is not ready"
    except client_error() as error:
        problem = f"no server of the Open Inference Protocol answers ({error_text(error, answer_s)})"
    client.close()
    tls = "grpcs://HOST:PORT if it takes TLS, with --triton-ca FILE for an authority of your own"
    raise SetupError(problem, where=f"--triton {spec}", fix=f"give its gRPC port (8001 by default), or {tls}")


def check_accepts_models(spec: ServerSpec) -> None:
    """Raise SetupError if a remote server takes no models; it is no error here if none answers."""
    try:
        server = connect(spec)
    except SetupError:
        return
    with contextlib.closing(server.client):
        try:
            # No model has this name, so nothing is unloaded.
            server.client.unload_model(f"none{_new_suffix()}", client_timeout=server.timeouts.answer_s)
        except client_error() as error:
            if (refusal := server.refused_models(error)) is not None:
                raise refusal from error


def _new_suffix() -> str:
    """A suffix for the names of models that is unique across users, machines and time."""
    return f"{_NAME_PREFIX}{_process_scope()}-{os.getpid()}-{_start_ticks(os.getpid())}-{next(_numbers)}"


def _is_orphaned(name: str) -> bool:
    """Whether a process of this user's on this machine named the model and has ended. Processes on other
    hosts, in other containers or before a reboot cannot be seen from here."""
    match = _OWN_NAME.search(name)
    if match is None or match["scope"] != _process_scope():
        return False
    return _start_ticks(int(match["pid"])) != match["started"]


def _process_scope() -> str:
    """A digest of where a process id is unique: this boot of the machine, the container, the user."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    scope = f"{boot}/{Path('/proc/self/ns/pid').readlink()}/{os.getuid()}"
    return hashlib.sha256(scope.encode()).hexdigest()[:12]


def _start_ticks(pid: int) -> str:
    """When a process started, in the kernel's clock ticks; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""
