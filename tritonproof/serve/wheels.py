"""The programs in PyPI's wheels, tritonserver and perf_analyzer, and the libraries that they need."""

import importlib.metadata
import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tritonproof.base import commands
from tritonproof.base.errors import SetupError
from tritonproof.host import scratch
from tritonproof.host.machine import package_folder

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The running Python's version, as in the names of its library and of Triton's stubs."""
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib")
"""Where Linux on x86-64 has its shared libraries."""
PYTHONS = ("3.10", "3.11", "3.12")
"""The Pythons for which the embedded Triton and perf_analyzer run: NumPy 1 has no wheels for later ones."""
WITH_PYTHON = f"with Python {PYTHONS[0]} to {PYTHONS[-1]}"


def embedded_triton() -> Path:
    """nvidia-pytriton's folder of `bin/tritonserver`, Python backend and stubs. Raises SetupError without."""
    package = package_folder("pytriton")
    if package is None:
        fix = f"{commands.install_command('server')}, {WITH_PYTHON}; or name a server by --triton"
        raise SetupError("--triton embedded needs the wheel nvidia-pytriton", fix=fix)
    return package / "tritonserver"


def triton_libraries() -> Path:
    """The shared libraries that nvidia-pytriton brings for its Triton. Raises SetupError without it."""
    return embedded_triton().parent.parent / "nvidia_pytriton.libs"


def libpython(python: str = PYTHON, system: Sequence[str] = LIBRARY_FOLDERS) -> Path:
    """The folder of the shared library of the Python `python`, which Triton's Python-backend stub links to:
    the running Python's, one on LD_LIBRARY_PATH, or one in `system`. Raises SetupError if none has it."""
    name = f"libpython{python}.so.1.0"
    folders = (sysconfig.get_config_var("LIBDIR"), *os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for folder in (*folders, *system):
        if folder and (Path(folder) / name).is_file():
            return Path(folder)
    fix = f"apt-get install libpython{python} (Debian, Ubuntu), or put its folder on LD_LIBRARY_PATH"
    what = f"Triton's Python backend needs {name}, which is not on this machine"
    raise SetupError(what, where=", ".join(system), fix=fix)


def backend_folder(parent: Path, python: str = PYTHON) -> Path:
    """Make a folder of Triton's backends below `parent`: the wheel's Python backend with the stub for
    `python`. Raises SetupError if the wheel has no such stub, or it cannot work with the installed NumPy."""
    root = embedded_triton()
    stub = root / "python_backend_stubs" / python / "triton_python_backend_stub"
    if not stub.is_file():
        what = f"nvidia-pytriton has no Python-backend stub for Python {python}"
        raise SetupError(what, where=stub.parent.parent, fix=f"make the environment {WITH_PYTHON}")
    if not (numpy := importlib.metadata.version("numpy")).startswith("1."):
        # With NumPy 2 the backend's answers are empty arrays.
        what = f"the embedded Triton's Python backend needs NumPy 1, and {numpy} is installed"
        raise SetupError(what, fix="pip install 'numpy<2', or name a server by --triton")
    folder = parent / "backends" / "python"
    folder.mkdir(parents=True)
    for source in (root / "backends" / "python").iterdir():
        if source.name not in (stub.name, "__pycache__"):
            (folder / source.name).symlink_to(source)
    (folder / stub.name).symlink_to(stub)
    return folder.parent


def perf_analyzer() -> Path:
    """perf_analyzer, beside the running Python or on PATH. Raises SetupError if it is in neither."""
    own = Path(sys.executable).with_name("perf_analyzer")
    program = own if own.is_file() else shutil.which("perf_analyzer")
    if program is None:
        installs = f"{commands.install_command('load')}, {WITH_PYTHON}"
        fix = f"{installs}; or put one on PATH; or leave the load tests out: -m 'not speed'"
        raise SetupError("the load tests need perf_analyzer", where=own.parent, fix=fix)
    return Path(program)


def perf_analyzer_libraries() -> str:
    """The LD_LIBRARY_PATH by which perf_analyzer finds the CUDA runtime, and libb64 under the name it
    expects. Each call looks anew, as another user may have taken the place of libb64's link."""
    folders = [os.environ.get("LD_LIBRARY_PATH", "")]
    if package_folder("nvidia") and (cuda := package_folder("nvidia.cuda_runtime")):
        folders.append(str(cuda / "lib"))
    if package_folder("pytriton"):
        folders += [str(_link_folder(library)) for library in triton_libraries().glob("libb64-*.so.0d")]
    return ":".join(filter(None, folders))


def _link_folder(library: Path) -> Path:
    """A private folder with `library` under the name libb64.so.0d. Raises SetupError if there can be none."""
    folder = scratch.private_folder("lib")
    link, temporary = folder / "libb64.so.0d", folder / f".link-{os.getpid()}"
    if not link.is_symlink() or link.readlink() != library:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(library)
        temporary.replace(link)
    return folder
