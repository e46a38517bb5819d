"""Starts a Triton and stops it in the end."""

import contextlib
import http.client
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from tritonproof.base.errors import ProofError, SetupError
from tritonproof.host import machine
from tritonproof.host.process import PRIVATE_UMASK, guarded, how_ended, log_end
from tritonproof.host.scratch import report_full_disk, scratch_folder
from tritonproof.serve import command, connection
from tritonproof.serve.command import Ports
from tritonproof.serve.connection import client_error_type
from tritonproof.serve.container import docker_command, prepare_image
from tritonproof.serve.remote import remote_server
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
    on_progress: OnProgress = lambda _text: None,
) -> Iterator[Server]:
    """A ready server for the models below `repository`, none of them loaded; stopped at the end of the block.

    Afterwards only its output in the file `log` is left, whatever happens to this process. It computes on
    `device`. `shared_memory` ("system", "cuda" or "none") is how tensors will reach it, which a container
    must allow. `variables` and `options` extend its environment and command. Only who has the `key` can load
    models; without one, everybody can. With `auto_complete` it completes configurations, as a user's would.

    A remote server stays unchanged. Raises SetupError if a part is missing, ProofError if it does not start.
    """
    if spec.is_remote:
        with remote_server(spec) as server:
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
    except (client_error_type(), OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return None  # no answer, or not Triton's
