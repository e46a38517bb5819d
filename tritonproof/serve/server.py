"""A running Triton: loads a model, infers, unloads it; and what its log says."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonproof.base import disk
from tritonproof.base.disk import files_in
from tritonproof.base.errors import NotAvailableError, ProofError, SetupError
from tritonproof.base.sanitize import visible
from tritonproof.build.builds import CaseBuild
from tritonproof.build.configuration import config_json, model_config
from tritonproof.build.runtime_files import engine_folder
from tritonproof.host import scratch
from tritonproof.host.process import how_ended, indented_lines, log_end, stop
from tritonproof.host.processor_use import GpuWatch, watch_gpus
from tritonproof.record.schema import ConfigVariant
from tritonproof.serve import connection, server_spec
from tritonproof.serve.backends import TENSORRT_BACKEND, engine_refusal, serves_natively, tensorrt_of
from tritonproof.serve.connection import client_error_type, error_text, is_unimplemented
from tritonproof.serve.container import container_process
from tritonproof.serve.messages import inputs_of, read_output
from tritonproof.serve.server_spec import ContainerImage, ServerSpec
from tritonproof.spec import Arrays, Case, Device, Model

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

_ALIVE_S = 2.0
"""Seconds within which a live server, even a busy one, answers that it is."""
_ENDING_S = 5.0
"""Seconds from a server's end until its status is known, as the guard cleans up first."""


@dataclass(frozen=True)
class Server:
    """A running Triton and how it is reached. What is unknown of it is None: most, of a remote server."""

    spec: ServerSpec
    address: str
    """HOST:PORT of its gRPC endpoint."""
    version: str
    log: Path | None
    """The file with its output."""
    client: Any
    """A tritonclient.grpc.InferenceServerClient of it."""
    http_address: str | None = None
    """HOST:PORT of its HTTP endpoint."""
    backends: Path | None = None
    """Its folder of backends; None for a container."""
    scratch: Path | None = None
    """A folder that is removed with the server, however this process ends."""
    pid: int | None = None
    """The process above all of the server's; None for a container, whose processes are not below this one."""
    process: "subprocess.Popen[bytes] | None" = None
    """The process that ends with the server, and with its status."""
    ready_s: float | None = None
    """Seconds from its start until it was ready."""
    device: Device | None = None
    image: ContainerImage | None = None
    suffix: str = ""
    """The end of the names of our models on it; empty for a server of the run's own."""
    timeouts: connection.Timeouts = field(default_factory=connection.Timeouts)
    label: str = "Triton"
    """What errors call it: a case may have several."""
    stop_reasons: list[str] = field(default_factory=list)
    """Why this suite ended it early, if it did."""

    @property
    def tensorrt(self) -> str | None:
        """The version of its TensorRT, if known."""
        return tensorrt_of(self.spec.kind, self.image)

    def check_measurable(self, lacks: Sequence[str] = ()) -> None:
        """Raise NotAvailableError if the load generator cannot reach it, or needs what the server `lacks`."""
        if self.spec.access.header_file is not None:
            raise NotAvailableError("load is not measured: perf_analyzer sends no headers over gRPC")
        if lacks:
            what = f"perf_analyzer asks for the model's {' and '.join(lacks)}, which the server lacks"
            raise NotAvailableError(f"load is not measured: {what}")

    def name_of(self, case: Case) -> str:
        """The name of a case's model on the server; a user's model keeps its own."""
        return case.model.name if case.model.from_repository else f"{case}{self.suffix}"

    def load(self, built: CaseBuild, variant: ConfigVariant) -> str:
        """Load a build under its case's name, in place of any model of that name; returns the backend that
        serves it. Raises SetupError if the server takes no models, ProofError if the model does not load."""
        case, deployment = built.case, variant.deployment
        name = self.name_of(built.case)
        engines, files = "", None
        if self.spec.is_remote:
            ways = [True, False] if case.format.backend else [False]
        else:
            ways = [serves_natively(self.spec.kind, self.backends, case.format)]
            in_container = self.spec.kind == "docker"
            engines = engine_folder(case, built.digest, tensorrt=self.tensorrt, in_container=in_container)
        for native in ways:
            config = model_config(case, deployment, native=native, scenario=variant.scenario, engines=engines)
            config.name = name
            try:
                if self.spec.is_remote:
                    # A sent model that is replaced while loaded stays in the server's /tmp for good.
                    self.unload(name)
                    code = () if native else ("model.py", "runtime.py")
                    paths = [*map(built.artifact.with_name, code), *files_in(built.artifact)]
                    files = {f"file:{path.relative_to(built.folder)}": path.read_bytes() for path in paths}
                self._load(name, config_json(config), files)
                return str(config.backend)
            except Exception as error:
                if not lacks_backend(error):
                    raise self._refusal(str(case), error, built.taken_from or built.folder) from error
        raise NotAvailableError(f"{self.label} {self.version} has no {case.format.backend} backend")

    def load_folder(self, folder: Path, config: "ModelConfig | None" = None) -> None:
        """Load the model in `folder` of the server's repository, with its own settings or as `config` says.
        Raises NotAvailableError if the server lacks the model's own backend, else what `load` raises."""
        name = folder.name if config is None else str(config.name)
        try:
            self._load(name, None if config is None else config_json(config))
        except Exception as error:
            refusal = self._refusal(name, error, folder)
            # Judged by the error: the refusal has the end of the log, which may be about another model.
            if config is None and lacks_backend(error):
                raise NotAvailableError(f"the server lacks a backend: {refusal.what}") from error
            raise refusal from error

    def _load(self, name: str, config: str | None, files: dict[str, bytes] | None = None) -> None:
        options = {"config": config, "files": files, "client_timeout": self.timeouts.loading_s}
        try:
            self.wait_for(lambda: self.client.load_model(name, **options))
        except BaseException:
            if self.spec.is_remote:
                # The server finishes the loading that nobody waits for any more, and then unloads the model.
                with contextlib.suppress(Exception):
                    self.client.unload_model(name, client_timeout=self.timeouts.answer_s)
            raise
        if self.scratch is not None:
            # Before the first request, whose tensors go through the segments that the Python backend made.
            scratch.hide_segments(self.scratch.name)

    def _refusal(self, name: str, error: Exception, folder: Path) -> ProofError:
        if (refused := self.refused_models(error)) is not None:
            return refused
        reasons = [error_text(error, self.timeouts.loading_s), why_not_loaded(self.log, name)]
        if "failed to poll from model repository" in reasons[0] and reasons[1]:
            reasons = reasons[1:]  # the first says only that there is one
        what = f"{self.label} did not load {name}: {'; '.join(filter(None, reasons))}"
        if not isinstance(error, connection.HangsError) and not self.is_live():
            what = f"{self.label} ended, or answers no more, while it loaded {name}"
        what += self.log_tail()
        install = f"install it for the Python that serves the model (embedded: {sys.executable})"
        return ProofError(what, where=folder, fix=install if "No module named" in what else None)

    def refused_models(self, error: Exception) -> SetupError | None:
        """The error for a server whose answer says that it takes no models; None if it takes them."""
        if "explicit model load / unload is not allowed" not in str(error) and not is_unimplemented(error):
            return None
        fix = "start a Triton with --model-control-mode=explicit, or prove what it has: --repository remote"
        return SetupError("the server does not accept models", where=f"--triton {self.spec}", fix=fix)

    def unload(self, name: str) -> None:
        """Unload the model `name` and wait until it is gone. Raises tritonclient's error if none answers."""
        deadline = time.monotonic() + self.timeouts.answer_s
        self.client.unload_model(name, client_timeout=self.timeouts.answer_s)
        is_ready = self.client.is_model_ready
        while (left_s := deadline - time.monotonic()) > 0 and is_ready(name, client_timeout=left_s):
            time.sleep(0.05)

    def infer(self, name: str, model: Model, arrays: Arrays) -> dict[str, Any]:
        """Send one request to the loaded model `name`; returns its outputs. Both are by name, [batch, ...]
        each. Raises ProofError if the request fails or takes longer than REQUEST_S, or the server hangs."""
        limit_s = connection.REQUEST_S
        try:
            inputs = inputs_of(model, arrays)
            result = self.wait_for(lambda: self.client.infer(name, inputs, client_timeout=limit_s))
            values = {tensor.name: read_output(result, tensor.name) for tensor in model.outputs}
        except (client_error_type(), ProofError) as error:
            why = f"{error_text(error, limit_s)}{self.log_tail()}"
            raise ProofError(f"a request failed: {why}", where=name) from error
        alone = not model.batched
        return {name: value[None] if alone and value is not None else value for name, value in values.items()}

    def wait_for(self, call: Callable[[], connection.Result]) -> connection.Result:
        """The result of `call`, which waits for this server. If a server on this machine computes nothing for
        `timeouts.idle_s` seconds, this ends it for everybody and raises HangsError."""
        try:
            return connection.wait_while_busy(call, self.pid, self.timeouts.idle_s)
        except connection.HangsError:
            if self.process is not None:
                self.stop_reasons.append("was ended by this suite, as it hung")
                stop(self.process)
            raise

    def forget_shared_memory(self) -> None:
        """Unregister a killed client's regions, whose names would stay taken; not on a remote server."""
        if self.spec.is_remote:
            return
        with contextlib.suppress(Exception):  # a server that is gone has forgotten it
            self.client.unregister_system_shared_memory(client_timeout=self.timeouts.answer_s)
            self.client.unregister_cuda_shared_memory(client_timeout=self.timeouts.answer_s)

    def query(self, question: str, call: str, *arguments: str) -> Any:
        """The answer to tritonclient's `call`; None if the server lacks it. Raises ProofError if it fails."""
        limit_s = self.timeouts.answer_s
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

    def watch_gpu(self) -> contextlib.AbstractContextManager[GpuWatch | None]:
        """Watch the server's GPUs during a block; yields None if there are none, or they are unknown."""
        return watch_gpus(self.visible_pid()) if self.device == "cuda" else contextlib.nullcontext()

    def visible_pid(self) -> int | None:
        """The process above all of the server's, even in a container; None if it cannot be seen from here."""
        if self.spec.kind == "docker":
            return None if self.scratch is None else container_process(self.scratch.name)
        return self.pid

    def log_tail(self) -> str:
        """How the server ended, if it did, and the last lines of its log."""
        ended = self.how_it_ended()
        return f"\n  {self.label} {ended}{tail_of(self.log)}" if ended else tail_of(self.log)

    def how_it_ended(self) -> str:
        """`was ended by SIGKILL`, `ended with status 1`; empty if it runs, or is not this process's."""
        if self.process is None or self.stop_reasons:
            return "".join(self.stop_reasons[:1])
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
            return bool(self.client.is_server_live(client_timeout=limit_s or self.timeouts.answer_s))
        except client_error_type():
            return False


def lacks_backend(error: Exception) -> bool:
    """Whether Triton refused a model because it lacks the backend."""
    return "unable to find" in str(error) and "backend" in str(error)


_LOG_LINES, _REASONS = 15, 3
"""How many last lines of a log an error shows, and how many earlier ones with a reason."""
_FRAME = re.compile(r"\s*\d+# 0x[0-9A-Fa-f]+ in ")
"""A stack frame without a name; Triton prints twenty when a signal ends it."""
_STUB = "Failed to preinitialize Python stub: "
"""Logged before the Python backend waits for a model for ever: src/pb_stub.cc of python_backend, r24.10."""
_REASON = re.compile(r"\s*what\(\): |E\d{4} (?!.*CudaDriverHelper has not been initialized)")
"""A C++ exception's reason, or an error in Triton's log but for the one that it always logs without a GPU."""
_WARNING = re.compile(r'^[WE]\d{4} \S+ +\d+ [^\]\n]+\] "?(.*?)"?$', re.MULTILINE)
"""A line of Triton's log: `W1124 18:17:33.732266 7950 server.cc:305] "text"`."""
_VARYING = re.compile(r"0x[0-9a-f]+|/tmp/\S+|\d+")


def why_not_loaded(log: Path | None, name: str) -> str:
    """The reason in a log why the model `name` did not load, if Triton's answer lacks it; else empty."""
    text = "" if log is None else log_end(log)
    reason, is_loading = "", False
    for line in text.splitlines():
        if '"loading: ' in line:
            is_loading = f'"loading: {name}:' in line
            reason = "" if is_loading else reason
        for beginning in (f"Poll failed for model directory '{name}': ", *([_STUB] if is_loading else [])):
            if beginning in line:
                reason = line.partition(beginning)[2].strip().removesuffix('"').partition("\\n")[0]
    return reason


def warnings_in(log: Path | None) -> dict[str, str]:
    """The warnings and errors in a server's log, by their texts without numbers, which vary between runs."""
    warnings: dict[str, str] = {}
    if log is not None:
        with contextlib.suppress(OSError), disk.opened(log) as file:
            # Those of a start and of loadings stand at its beginning.
            for text in _WARNING.findall(file.read(4 << 20).decode(errors="replace")):
                warnings.setdefault(_VARYING.sub("N", text), visible(text)[:500])
    return warnings


def tail_of(log: Path | None) -> str:
    """The end of a log, for an error: its path, earlier lines with a reason, the last lines; may be empty."""
    text = "" if log is None else log_end(log)
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    reasons = [line for line in lines[:-_LOG_LINES] if _REASON.match(line)]
    shown = [*reasons[-_REASONS:], *lines[-_LOG_LINES:]]
    return indented_lines([f"the end of {log}:", *shown]) if shown else ""


def check_supported(server: Server, case: Case) -> None:
    """Raise NotAvailableError if the server's own backend would use one of the case's GPUs alone, or if its
    TensorRT is of another version, in any part, than the one that builds the engine. The suite's runtime
    reads engines with the TensorRT that builds them, and the server itself judges an unknown version."""
    if not serves_natively(server.spec.kind, server.backends, case.format):
        return
    fixed = server_spec.TENSORRT_ON_ANY_GPU_SINCE
    release = server_spec.release_of(server.image, server.version)
    if case.accelerator == "trt" and case.gpus > 1 and release is not None and release.name < fixed:
        limitation = f"ONNX Runtime's TensorRT accelerator uses the first GPU alone in Triton {release.name}"
        raise NotAvailableError(f"{limitation}; from {fixed} on it uses each")
    if case.format.backend == TENSORRT_BACKEND and (refusal := engine_refusal(server.tensorrt)):
        raise refusal
