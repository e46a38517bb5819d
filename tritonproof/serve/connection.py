"""Connections to a server at HOST:PORT: channels, certificates, headers, deadlines; no proxy on this host."""

import json
import re
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.sanitize import cut
from tritonproof.host import processor_use
from tritonproof.safe_io.files import MAX_SETTINGS_BYTES, check_regular, read_text, readable

MAX_REASON_BYTES = 4 << 20
"""The longest reason for a refusal that a client reads; a longer one hides the refusal itself."""
MAX_REPORT_BYTES = 64 * 2**20
"""The largest answer about a server and its models; parsed, it takes four times as much. A model's statistics
take some kilobytes; gRPC's own limit for all answers is 4 MiB."""
MAX_VERSION_CHARS = 100
"""Characters of the version of a server, or of its model, that are kept."""
_HEADER = re.compile(r"(?!grpc-)([a-z0-9_.-]+)(?<!-bin):[ \t]*([ -~]*)", re.IGNORECASE)
"""A header that gRPC sends; names grpc-... and ...-bin are its own: doc/PROTOCOL-HTTP2.md of grpc/grpc."""


@dataclass(frozen=True)
class ServerAccess:
    """How to reach a server's gRPC endpoint. Headers may be secret: they stay in their file until sent."""

    tls: bool = False
    """Whether to encrypt the connection and check the server's certificate."""
    ca: Path | None = None
    """The certificates, in PEM, that verify the server's; None for the public authorities."""
    header_file: Path | None = None
    """The file with the headers of every request; None without any."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The headers as gRPC takes them. Raises InputError for a malformed file."""
        return () if self.header_file is None else headers_in(self.header_file)

    @property
    def roots(self) -> Path:
        """The certificates that verify the server's: the user's, else gRPC's own."""
        import grpc

        return self.ca or Path(grpc.__file__).parent / "_cython" / "_credentials" / "roots.pem"


PLAIN = ServerAccess()


def headers_in(file: Path) -> tuple[tuple[str, str], ...]:
    """The headers in a file with lines of `Name: value`; empty lines and those that begin with # are skipped.
    Raises InputError that names the line but never shows its content."""
    fix = "write one header a line, such as Authorization: Bearer TOKEN"
    headers = []
    for number, line in enumerate(read_text(file, "the headers", fix, MAX_SETTINGS_BYTES).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            raise InputError("this is no header that gRPC sends", where=f"{file}, line {number}", fix=fix)
        headers.append((match[1].lower(), match[2]))
    return tuple(headers)


def check_certificates(file: Path) -> None:
    """Raise InputError if the file has no certificates in PEM."""
    what, fix = "the certificates", "give the PEM file of the authority that signed the server's certificate"
    check_regular(file, what, fix)
    with readable(what, file, fix):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)


def grpc_client(address: str, access: ServerAccess = PLAIN) -> Any:
    """A tritonclient.grpc.InferenceServerClient of the server at `address`, which takes tensors of any size
    and other answers of up to MAX_REPORT_BYTES, and reaches a server on this host without a proxy."""
    from tritonclient.grpc import InferenceServerClient

    roots = str(access.roots) if access.tls else None
    options = _channel_options(address)
    client = InferenceServerClient(address, ssl=access.tls, root_certificates=roots, channel_args=options)
    if access.header_file is not None:
        add_headers(client, dict(access.metadata))
    return client


def add_headers(client: Any, headers: dict[str, str]) -> None:
    """Make a tritonclient.grpc.InferenceServerClient send these headers with every request."""

    def add(request: Any) -> None:
        request.headers = {**(request.headers or {}), **headers}

    client.register_plugin(add)


def grpc_channel(address: str, access: ServerAccess = PLAIN) -> Any:
    """A grpc.Channel to the server at `address`, with the limits of `grpc_client`; calls send the headers."""
    import grpc

    options = _channel_options(address)
    if not access.tls:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(access.roots.read_bytes()), options)


def _channel_options(address: str) -> list[tuple[str, Any]]:
    proxy_options = [("grpc.enable_http_proxy", 0)] if is_on_this_host(address) else []
    # Only a service configuration sets a limit for each method; it holds for unpacked answers, too. The last
    # two methods have no limit, as they answer with tensors.
    service = {"service": "inference.GRPCInferenceService"}
    limits = [
        {"name": [service], "maxResponseMessageBytes": MAX_REPORT_BYTES},
        {"name": [{**service, "method": method} for method in ("ModelInfer", "ModelStreamInfer")]},
    ]
    return [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # Triton's reasons travel as metadata: 380 KB where cuDNN refuses a graph, 16 KB by gRPC's default.
        ("grpc.max_metadata_size", MAX_REASON_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_REASON_BYTES),
        ("grpc.service_config", json.dumps({"methodConfig": limits})),
        ("grpc.service_config_disable_resolution", 1),
        *proxy_options,
    ]


def client_error_type() -> type[Exception]:
    """The class of tritonclient's errors, which is imported late: an answer is refused, or does not come."""
    from tritonclient.utils import InferenceServerException

    return InferenceServerException


def is_unimplemented(error: Exception) -> bool:
    """Whether a server says that it lacks a call of the Open Inference Protocol."""
    status = getattr(error, "status", None)
    return callable(status) and status() == "StatusCode.UNIMPLEMENTED"


def is_on_this_host(address: str) -> bool:
    """Whether the address names this host, which needs no proxy and can share memory."""
    return address.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")


def http_get(url: str, limit_s: float) -> bytes:
    """The beginning of a web server's answer to `url`, which lacks `http://`, without a proxy. Raises OSError
    for an error or `limit_s` seconds of silence, and http.client.HTTPException for anything but HTTP."""
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with without_proxy.open(f"http://{url}", timeout=limit_s) as answer:
        return bytes(answer.read(65536))


_IDLE_CORES = 0.005
"""A server that uses fewer cores only waits: an idle Triton 2.51 took 0.001."""
MAX_REFUSAL_CHARS = 200
"""Characters shown of a server's reason for a refusal."""
LOADING_S = 900.0
"""Seconds for loading a model, in which a TensorRT accelerator may build its engine."""
REQUEST_S = 600.0
"""Seconds for an inference request: a volume takes a minute on few cores."""
ANSWER_S = 10.0
"""Seconds for unloading a model, or for any other answer; a healthy server takes milliseconds."""
IDLE_S = 120.0
"""Seconds for which a server that owes an answer may compute nothing, if its processes are visible: a backend
without a library may load a model for ever, and a model may leave a request unanswered."""
Result = TypeVar("Result")


class HangsError(ProofError):
    """A server owes an answer and computes nothing."""


def wait_while_busy(
    call: Callable[[], Result],
    pid: int | None,
    idle_s: float,
    clock: Callable[[int | None], Callable[[], processor_use.CpuTime]] = processor_use.start_cpu_clock,
) -> Result:
    """What `call`, a question to a server, returns or raises. Raises HangsError, without ending the call, if
    the server's processes, below `pid`, compute nothing for `idle_s` seconds; without `pid` it waits on."""
    if pid is None:
        return call()
    answer: Future[Result] = Future()

    def fulfil() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            answer.set_exception(error)

    threading.Thread(target=fulfil, daemon=True).start()
    look_s = min(1.0, idle_s)
    if wait([answer], look_s).done:
        return answer.result()
    read_cpu, since_s = clock(pid), time.monotonic()
    while not wait([answer], look_s).done:
        if time.monotonic() - since_s < idle_s:
            continue
        cpu_time = read_cpu()
        if (cpu_time.server_s or 0.0) < _IDLE_CORES * cpu_time.elapsed_s:
            idle = f"{cpu_time.elapsed_s:.0f} s"
            raise HangsError(f"the server has computed nothing for {idle}, so no answer is expected")
        read_cpu, since_s = clock(pid), time.monotonic()
    return answer.result()


def error_text(error: Exception, limit_s: float) -> str:
    """An error's text, shortened if it is long, with the time limit that gRPC's text lacks."""
    details = getattr(error, "details", None)
    words = f"[{error.code()}] {details()}" if callable(details) else str(error)  # type: ignore[attr-defined]
    return f"no answer within {limit_s:g} s" if "Deadline Exceeded" in words else cut(words)
