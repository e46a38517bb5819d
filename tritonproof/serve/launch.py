"""Starts a Triton and stops it in the end."""

import contextlib
import http.client
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tritonproof.base.errors import NotAvailableError, ProofError, SetupError
from tritonproof.frameworks import gpu_libraries
from tritonproof.host.process import PRIVATE_UMASK, guarded, how_ended, log_end
from tritonproof.host.scratch import report_full_disk, scratch_folder
from tritonproof.serve import connection, kinds
from tritonproof.serve.connection import client_error_type
from tritonproof.serve.container import CONTAINER
from tritonproof.serve.kinds import Kind, Ports
from tritonproof.serve.local import EMBEDDED, LOCAL
from tritonproof.serve.remote import remote_server
from tritonproof.serve.server import Server, tail_of
from tritonproof.serve.server_spec import ServerKind, ServerSetup, ServerSpec
from tritonproof.spec import Format, NativeBackend, OnProgress

KINDS: dict[ServerKind, Kind] = {"embedded": EMBEDDED, "local": LOCAL, "docker": CONTAINER}
"""The kinds that this suite starts; a remote server runs already."""
_START_ATTEMPTS = 3
"""How often a server is started if other programs take its ports first."""


def native_backend(spec: ServerSpec, format_: Format, tensorrt: str | None = None) -> NativeBackend | None:
    """The server's own backend for a format, as `Kind.native_backend` says; of a remote server none is known.
    Raises NotAvailableError also if the server's `tensorrt` is of another version, in any part, than the one
    that builds the engine. The suite's runtime reads engines with the TensorRT that builds them, and the
    server itself judges an unknown version."""
    backend = None if spec.is_remote else KINDS[spec.kind].native_backend(spec, format_)
    built_by = gpu_libraries.installed_tensorrt() if backend is not None and backend.reads_engines else None
    if tensorrt is None or built_by is None or gpu_libraries.is_same_version(tensorrt, built_by.version):
        return backend
    built = built_by.version
    what = f"the server's TensorRT {tensorrt} reads only its own engines, and {built} builds them here"
    raise NotAvailableError(what, fix=f"install TensorRT {tensorrt}; or use a server with TensorRT {built}")


@contextlib.contextmanager
def serve(
    spec: ServerSpec, setup: ServerSetup, on_progress: OnProgress = lambda _text: None
) -> Iterator[Server]:
    """A ready server with none of its models loaded; stopped at the end of the block. Afterwards only its log
    is left, whatever happens to this process. A remote server stays unchanged, and sees nothing of `setup`.
    Raises SetupError if a part is missing, ProofError if it does not start."""
    if spec.is_remote:
        with remote_server(spec) as server:
            yield server
        return
    for _attempt in range(_START_ATTEMPTS):
        with contextlib.ExitStack() as stack:
            started = _start(spec, setup, stack, on_progress)
            if started is not None:
                yield started
                return
    raise ProofError(f"Triton found its ports in use, {_START_ATTEMPTS} times{tail_of(setup.log)}")


def _start(
    spec: ServerSpec, setup: ServerSetup, stack: contextlib.ExitStack, on_progress: OnProgress
) -> Server | None:
    """A ready server, which ends with the stack; None if another program took a port before it did."""
    kind, ports = KINDS[spec.kind], kinds.free_ports()
    output = stack.enter_context(_emptied_log(setup.log))
    with report_full_disk(Path(tempfile.gettempdir())):
        # The folder's path needs no quoting in the shell in which Triton's Python backend starts its stubs.
        folder = stack.enter_context(scratch_folder(kind.purpose))
        (folder / kinds.MODELS).symlink_to(setup.repository.absolute(), target_is_directory=True)
        program = kind.program_of(spec, setup, ports, folder)
    on_progress(f"start Triton ({spec.kind})")
    started = time.monotonic()
    process = stack.enter_context(
        guarded(
            program.arguments,
            environment=program.environment,
            output=output,
            grace_s=kind.stop_s,
            segments=[f"{re.escape(folder.name)}.*"],
            remove=folder,
            umask=PRIVATE_UMASK,
            cleanup=program.cleanup,
        )
    )
    client = connection.grpc_client(f"127.0.0.1:{ports.grpc}")
    stack.callback(client.close)
    connection.add_headers(client, kinds.KEY_HEADERS)
    version = _wait_ready(process, client, ports, folder.name, setup.log, kind.ready_s)
    if version is None:
        return None
    return Server(
        spec,
        address=f"127.0.0.1:{ports.grpc}",
        version=version,
        log=setup.log,
        client=client,
        program=program,
        http_address=f"127.0.0.1:{ports.http}",
        scratch=folder,
        pid=process.pid if program.image is None else None,
        process=process,
        ready_s=round(time.monotonic() - started, 3),
        device=setup.device,
    )


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
