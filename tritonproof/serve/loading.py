"""Loads a converted case, or a folder of its repository, into a server, and tells why one does not load."""

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tritonproof.base import disk
from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.base.sanitize import visible
from tritonproof.build.builds import CaseBuild
from tritonproof.build.configuration import config_json, model_config
from tritonproof.build.runtime_files import engine_folder
from tritonproof.host.process import log_end
from tritonproof.record.setup import ConfigVariant
from tritonproof.serve import connection
from tritonproof.serve.connection import HangsError, error_text
from tritonproof.serve.container import TENSORRT_ON_ANY_GPU_SINCE, release_of
from tritonproof.serve.launch import native_backend
from tritonproof.serve.remote import refused_models
from tritonproof.serve.server import Server
from tritonproof.spec import Case

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig


def load_build(server: Server, built: CaseBuild, variant: ConfigVariant) -> str:
    """Load a build under its case's name, in place of any model of that name; returns the backend that
    serves it. Raises SetupError if the server takes no models, ProofError if the model does not load."""
    case, name = built.case, server.name_of(built.case)
    scenario, deployment = variant
    engines, files = "", None
    if server.spec.is_remote:
        ways = [True, False] if case.format.backend else [False]
    else:
        ways = [native_backend(server.spec, case.format) is not None]
        digest, in_container = built.facts.digest, server.in_container
        engines = engine_folder(case, digest, tensorrt=server.program.tensorrt, in_container=in_container)
    for native in ways:
        config = model_config(case, deployment, native=native, scenario=scenario, engines=engines)
        config.name = name
        try:
            if server.spec.is_remote:
                # A sent model that is replaced while loaded stays in the server's /tmp for good.
                server.unload(name)
                code = () if native else ("model.py", "runtime.py")
                paths = [*map(built.artifact.with_name, code), *disk.files_in(built.artifact)]
                files = {f"file:{path.relative_to(built.folder)}": path.read_bytes() for path in paths}
            server.load_model(name, config_json(config), files)
            return str(config.backend)
        except Exception as error:
            if not lacks_backend(error):
                raise _refusal(server, str(case), error, built.taken_from or built.folder) from error
    own = case.format.backend
    lacking = "python" if own is None else own.name
    raise NotAvailableError(f"{server.label} {server.version} has no {lacking} backend")


def load_folder(server: Server, folder: Path, config: "ModelConfig | None" = None) -> None:
    """Load the model in `folder` of the server's repository, with its own settings or as `config` says.
    Raises NotAvailableError if the server lacks the model's own backend, else what `load_build` raises."""
    name = folder.name if config is None else str(config.name)
    try:
        server.load_model(name, None if config is None else config_json(config))
    except Exception as error:
        refusal = _refusal(server, name, error, folder)
        # Judged by the error: the refusal has the end of the log, which may be about another model.
        if config is None and lacks_backend(error):
            raise NotAvailableError(f"the server lacks a backend: {refusal.what}") from error
        raise refusal from error


def check_supported(server: Server, case: Case) -> None:
    """Raise NotAvailableError if the server cannot serve the case's format, or its own backend would use one
    of the case's GPUs alone."""
    if native_backend(server.spec, case.format, server.program.tensorrt) is None:
        return
    fixed, release = TENSORRT_ON_ANY_GPU_SINCE, release_of(server.program.image, server.version)
    if case.accelerator == "trt" and case.gpus > 1 and release is not None and release.name < fixed:
        limitation = f"ONNX Runtime's TensorRT accelerator uses the first GPU alone in Triton {release.name}"
        raise NotAvailableError(f"{limitation}; from {fixed} on it uses each")


def _refusal(server: Server, name: str, error: Exception, folder: Path) -> ProofError:
    if (refused := refused_models(server.spec, error)) is not None:
        return refused
    reasons = [error_text(error, connection.LOADING_S), why_not_loaded(server.log, name)]
    if "failed to poll from model repository" in reasons[0] and reasons[1]:
        reasons = reasons[1:]  # the first only says that there is a reason
    what = f"{server.label} did not load {name}: {'; '.join(filter(None, reasons))}"
    if not isinstance(error, HangsError) and not server.is_live():
        what = f"{server.label} ended, or answers no more, while it loaded {name}"
    what += server.log_tail()
    install = f"install it for the Python that serves the model (embedded: {sys.executable})"
    return ProofError(what, where=folder, fix=install if "No module named" in what else None)


def lacks_backend(error: Exception) -> bool:
    """Whether Triton refused a model because it lacks the backend."""
    return "unable to find" in str(error) and "backend" in str(error)


_STUB = "Failed to preinitialize Python stub: "
"""Logged before the Python backend waits for a model for ever: src/pb_stub.cc of python_backend, r24.10."""
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
            # The warnings of a start and of loadings stand at the beginning of the log.
            for text in _WARNING.findall(file.read(4 << 20).decode(errors="replace")):
                warnings.setdefault(_VARYING.sub("N", text), visible(text)[:500])
    return warnings
