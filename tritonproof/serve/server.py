"""A running Triton: what reaches it, what it is asked, whether it still runs, and how its log ends."""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritonproof.base.errors import ProofError
from tritonproof.host import scratch
from tritonproof.host.process import how_ended, indented_lines, log_end, stop
from tritonproof.serve import connection
from tritonproof.serve.connection import client_error_type, error_text, is_unimplemented
from tritonproof.serve.container import container_process
from tritonproof.serve.kinds import ServerProgram
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Arrays, Case, Device, Model

_ALIVE_S = 2.0
"""Seconds within which a live server, even a busy one, answers that it is live."""
_ENDING_S = 5.0
"""Seconds from a server's end until its status is known, as the guard cleans up first."""


@dataclass(eq=False)
class Server:
    """A running Triton and how it is reached. An unknown field is None, as most are of a remote server."""

    spec: ServerSpec
    address: str
    """HOST:PORT of the server's gRPC endpoint."""
    version: str
    log: Path | None
    """The file with the server's output."""
    client: Any
    """A tritonclient.grpc.InferenceServerClient of the server."""
    http_address: str | None = None
    """HOST:PORT of the server's HTTP endpoint."""
    program: ServerProgram = field(default_factory=ServerProgram)
    scratch: Path | None = None
    """A folder that is removed with the server, however this process ends."""
    pid: int | None = None
    """The process above all of the server's; None for a container, whose processes are not below ours."""
    process: "subprocess.Popen[bytes] | None" = None
    """The process that ends with the server, and with its status."""
    ready_s: float | None = None
    """Seconds from the server's start until it was ready."""
    device: Device | None = None
    suffix: str = ""
    """The end of the names of our models on the server; empty for a server of the run's own."""
    label: str = "Triton"
    """The server's name in errors: a case may have several servers."""
    stop_reason: str = ""
    """Why this suite ended the server early, as the end of a sentence; empty if it did not."""

    @property
    def in_container(self) -> bool:
        """Whether this suite runs the server in a container, with its own processes, memory and files."""
        return self.spec.kind == "docker"

    def name_of(self, case: Case) -> str:
        """The name of a case's model on the server; a user's model keeps its own."""
        return case.model.name if case.model.from_repository else f"{case}{self.suffix}"

    def load_model(self, name: str, config: str | None, files: dict[str, bytes] | None = None) -> None:
        """Load the model `name` of its repository, or from these `files`, with its own configuration or this
        one in JSON. Raises tritonclient's error if the server refuses it, HangsError if the server hangs."""
        options = {"config": config, "files": files, "client_timeout": connection.LOADING_S}
        try:
            self.wait_for(lambda: self.client.load_model(name, **options))
        except BaseException:
            if self.spec.is_remote:
                # The server finishes the loading that nobody waits for any more, and then unloads the model.
                with contextlib.suppress(Exception):
                    self.client.unload_model(name, client_timeout=connection.ANSWER_S)
            raise
        if self.scratch is not None:
            # Hide the segments of the Python backend before the first request, whose tensors go through them.
            scratch.hide_segments(self.scratch.name)

    def unload(self, name: str) -> None:
        """Unload the model `name` and wait until it is gone. Raises tritonclient's error if none answers."""
        deadline = time.monotonic() + connection.ANSWER_S
        self.client.unload_model(name, client_timeout=connection.ANSWER_S)
        is_ready = self.client.is_model_ready
        while (left_s := deadline - time.monotonic()) > 0 and is_ready(name, client_timeout=left_s):
            time.sleep(0.05)

    def infer(self, name: str, model: Model, arrays: Arrays) -> dict[str, Any]:
        """Send one request to the loaded model `name`; returns its outputs. Both are by name, [batch, ...]
        each. Raises ProofError if the request fails or takes longer than REQUEST_S, or the server hangs."""
        from tritonproof.serve.messages import inputs_of, read_output  # for NumPy, which the doctor may lack

        limit_s = connection.REQUEST_S
        try:
            inputs = inputs_of(model, arrays)
            result = self.wait_for(lambda: self.client.infer(name, inputs, client_timeout=limit_s))
            values = {tensor.name: read_output(result, tensor.name) for tensor in model.outputs}
        except (client_error_type(), ProofError) as error:
            why = f"{error_text(error, limit_s)}{self.log_tail()}"
            raise ProofError(f"a request failed: {why}", where=name) from error
        if model.batched:
            return values
        return {name: None if value is None else value[None] for name, value in values.items()}

    def wait_for(self, call: Callable[[], connection.Result]) -> connection.Result:
        """The result of `call`, which waits for this server. If a server on this machine computes nothing for
        IDLE_S seconds, this ends it for everybody and raises HangsError."""
        try:
            return connection.wait_while_busy(call, self.pid, connection.IDLE_S)
        except connection.HangsError:
            if self.process is not None:
                self.stop_reason = "was ended by this suite, as it hung"
                stop(self.process)
            raise

    def query(self, question: str, call: str, *arguments: str) -> Any:
        """The answer to tritonclient's `call`; None if the server lacks it. Raises ProofError if it fails."""
        limit_s = connection.ANSWER_S
        try:
            return getattr(self.client, call)(*arguments, client_timeout=limit_s)
        except client_error_type() as error:
            if is_unimplemented(error):
                return None
            why = f"{error_text(error, limit_s)}{self.log_tail()}"
            raise ProofError(f"the server does not say {question}: {why}", where=self.address) from error

    def statistics(self) -> Sequence[Any]:
        """The server's counts for each version of every model; empty if it does not count."""
        answer = self.query("what it has counted", "get_inference_statistics")
        return [] if answer is None else list(answer.model_stats)

    def visible_pid(self) -> int | None:
        """The process above all of the server's, even in a container; None if it cannot be seen from here."""
        if self.in_container:
            return None if self.scratch is None else container_process(self.scratch.name)
        return self.pid

    def log_tail(self) -> str:
        """How the server ended, if it did, and the last lines of its log."""
        ended = self.how_it_ended()
        return f"\n  {self.label} {ended}{tail_of(self.log)}" if ended else tail_of(self.log)

    def how_it_ended(self) -> str:
        """`was ended by SIGKILL`, `ended with status 1`; empty if the server runs, or is remote."""
        if self.process is None or self.stop_reason:
            return self.stop_reason
        # Connections close first; the status follows when the guard has cleaned up.
        limit_s = 0.0 if self.is_live(_ALIVE_S) else _ENDING_S
        try:
            return how_ended(self.process.wait(limit_s))
        except subprocess.TimeoutExpired:
            return ""

    def check_running(self) -> None:
        """Raise ProofError if the server ended in an earlier test."""
        if self.process is not None and self.process.poll() is not None:
            what = f"{self.label} {self.how_it_ended()} in an earlier test of the case{tail_of(self.log)}"
            raise ProofError(what, fix="see the case's first failure; if memory ran out, use fewer instances")

    def is_live(self, limit_s: float | None = None) -> bool:
        """Whether the server answers within `limit_s` seconds, by default its own limit."""
        try:
            return bool(self.client.is_server_live(client_timeout=limit_s or connection.ANSWER_S))
        except client_error_type():
            return False


_LOG_LINES, _REASONS = 15, 3
"""How many last lines of a log an error shows, and how many earlier ones with a reason."""
_FRAME = re.compile(r"\s*\d+# 0x[0-9A-Fa-f]+ in ")
"""A stack frame without a name; Triton prints twenty when a signal ends it."""
_REASON = re.compile(r"\s*what\(\): |E\d{4} (?!.*CudaDriverHelper has not been initialized)")
"""A C++ exception's reason, or an error in Triton's log but for the one that it always logs without a GPU."""


def tail_of(log: Path | None) -> str:
    """The end of a log, for an error: its path, earlier lines with a reason, the last lines; may be empty."""
    text = "" if log is None else log_end(log)
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    reasons = [line for line in lines[:-_LOG_LINES] if _REASON.match(line)]
    shown = [*reasons[-_REASONS:], *lines[-_LOG_LINES:]]
    return indented_lines([f"the end of {log}:", *shown]) if shown else ""
