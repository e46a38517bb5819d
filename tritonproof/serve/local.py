"""A Triton that is a program on this machine, the embedded one or another; starts none."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tritonproof.base.errors import NotAvailableError, SetupError
from tritonproof.host.process import ProgramError, minimal_environment, run_program
from tritonproof.serve import kinds, wheels
from tritonproof.serve.kinds import Kind, Ports, ServerProgram
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Format, NativeBackend

_PYTHON_STUB = Path("python", "triton_python_backend_stub")
"""What runs a model for Triton's Python backend, below the folder of backends; it may not exist."""


def local_backends(program: str, default: Path = Path("/opt/tritonserver/backends")) -> Path:
    """A local tritonserver's backends: `../backends` beside the program, else the server's own default.
    Source: `backend_dir_` in src/command_line_parser.h of triton-inference-server/server, r24.10."""
    path = shutil.which(program)
    assert path is not None
    own = Path(path).resolve().parents[1] / "backends"
    return default if default.is_dir() and not own.is_dir() else own


def _native_backend(spec: ServerSpec, format_: Format) -> NativeBackend | None:
    backends, backend = local_backends(spec.location), format_.backend
    if backend is not None and (backends / backend.name / f"libtriton_{backend.name}.so").is_file():
        return backend
    if (backends / _PYTHON_STUB).is_file():
        return None
    own = "" if backend is None else f"{backend.name} or "
    present = ", ".join(sorted(path.name for path in backends.glob("*"))) or "none"
    raise NotAvailableError(f"needs Triton's {own}python backend; {backends} has {present}")


def _embedded_program(_spec: ServerSpec, setup: ServerSetup, ports: Ports, folder: Path) -> ServerProgram:
    program, backends = wheels.embedded_triton() / "bin" / "tritonserver", wheels.backend_folder(folder)
    environment = {**_environment(setup), "TMPDIR": str(folder)}
    libraries = [str(wheels.libpython()), str(wheels.triton_libraries()), environment.get("LD_LIBRARY_PATH")]
    environment |= _python_variables(environment, libraries)
    options = _options(setup, ports, folder, backends, kinds.KEY_OPTIONS)
    return ServerProgram([str(program), *options], environment, backends)


EMBEDDED = Kind(_embedded_program)
"""The Triton of nvidia-pytriton's wheel. Its Python backend serves all formats, by the suite's runtimes."""


def _local_program(spec: ServerSpec, setup: ServerSetup, ports: Ports, folder: Path) -> ServerProgram:
    backends, environment = local_backends(spec.location), _environment(setup)
    if (backends / _PYTHON_STUB).is_file():
        libraries = [environment.get("LD_LIBRARY_PATH")]
        # Last, so that the server finds its own libraries first. A server with native backends may need none.
        with contextlib.suppress(SetupError):
            libraries.append(str(wheels.libpython()))
        environment |= _python_variables(environment, libraries)
    help_text = ""  # its release is unknown, and a server ends at an unknown option
    with contextlib.suppress(ProgramError):
        command = [spec.location, "--help"]
        ended = run_program(command, environment=minimal_environment(), limit_s=kinds.ANSWER_S)
        help_text = ended.text + ended.error_text
    options = _options(setup, ports, folder, backends, re.findall(r"--([a-z-]+)", help_text))
    return ServerProgram([spec.location, *options], environment, backends, tensorrt=LOCAL.tensorrt_of(spec))


# In NVIDIA's container this process has the image's variables too.
LOCAL = Kind(_local_program, _native_backend, tensorrt_of=lambda _spec: os.environ.get("TRT_VERSION"))


def _options(
    setup: ServerSetup, ports: Ports, folder: Path, backends: Path, known: Collection[str]
) -> list[str]:
    return [
        *kinds.server_options(setup, folder.name, folder / kinds.MODELS, "127.0.0.1", ports, known),
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={folder.name}",
    ]


def _environment(setup: ServerSetup) -> dict[str, str]:
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if setup.device == "cpu" else {}
    return {**minimal_environment(), **hidden, **setup.variables}


def _python_variables(environment: Mapping[str, str], libraries: Sequence[str | None]) -> dict[str, str]:
    """The variables by which Triton's Python backend runs our Python, with libraries in these folders."""
    # Triton's stub runs the first `python3`, which needs the runtimes' packages; no model loads without bash.
    path = ":".join(filter(None, (str(Path(sys.executable).parent), environment.get("PATH"))))
    path = path if shutil.which("bash", path=path) else f"{path}:{os.defpath}"
    return {"LD_LIBRARY_PATH": ":".join(filter(None, libraries)), "PATH": path}
