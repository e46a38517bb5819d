"""Uses a Triton that somebody else runs, and leaves it as it was."""

import contextlib
import dataclasses
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tritonproof.base.errors import SetupError
from tritonproof.base.sanitize import one_line
from tritonproof.serve import connection
from tritonproof.serve.connection import client_error_type, error_text, is_unimplemented
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec

_SUFFIX_START = "-tritonproof-"
_OWN_NAME = re.compile(_SUFFIX_START + r"(?P<scope>[0-9a-f]{12})-(?P<pid>[0-9]+)-(?P<started>[0-9]+)-[0-9]+")
_numbers = itertools.count(1)


@contextlib.contextmanager
def remote_server(spec: ServerSpec) -> Iterator[Server]:
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


def connect(spec: ServerSpec) -> Server:
    """A remote server of the Open Inference Protocol. Raises SetupError if none answers."""
    client, limit_s = connection.grpc_client(spec.location, spec.access), connection.ANSWER_S
    try:
        if client.is_server_ready(client_timeout=limit_s):
            metadata = client.get_server_metadata(client_timeout=limit_s)
            # A Triton has the name that its --id gives it; other servers have their program's.
            is_triton = metadata.name == "triton" or "model_configuration" in metadata.extensions
            version = metadata.version if is_triton else f"{metadata.name} {metadata.version}"
            version = one_line(version, connection.MAX_VERSION_CHARS)  # it stands in records
            return Server(spec, spec.location, version, None, client)
        problem = "the server is not ready"
    except client_error_type() as error:
        problem = f"no server of the Open Inference Protocol answers ({error_text(error, limit_s)})"
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
            server.client.unload_model(f"none{_new_suffix()}", client_timeout=connection.ANSWER_S)
        except client_error_type() as error:
            if (refusal := refused_models(spec, error)) is not None:
                raise refusal from error


def refused_models(spec: ServerSpec, error: Exception) -> SetupError | None:
    """The error for a server whose answer says that it takes no models; None if it takes them."""
    if "explicit model load / unload is not allowed" not in str(error) and not is_unimplemented(error):
        return None
    fix = "start a Triton with --model-control-mode=explicit, or prove what it has: --repository remote"
    return SetupError("the server does not accept models", where=f"--triton {spec}", fix=fix)


def _new_suffix() -> str:
    """A suffix for the names of models that is unique across users, machines and time."""
    return f"{_SUFFIX_START}{_process_scope()}-{os.getpid()}-{_start_ticks(os.getpid())}-{next(_numbers)}"


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
