"""What a node needs for a run: the files of the controller's checkout, and a Python with the packages of the
benchmarks, which tox makes once for each set of packages."""

import contextlib
import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from tritonproof.base.errors import SetupError
from tritonproof.frameworks.gpu_libraries import gpu_environment
from tritonproof.host import locks, nvml
from tritonproof.host.process import ProgramError, guarded, last_lines, output_of

PYTHON = "TRITONPROOF_FLEET_PYTHON"
"""The variable by which a node, such as an image, names a Python that has the benchmarks' packages."""
CACHE = "TRITONPROOF_FLEET_CACHE"
"""The variable by which a node names the folder in which environments and builds are kept."""
_FILES = ("pyproject.toml", "tox.ini")
"""The files that decide which packages an environment has."""


def pack(root: Path, *, code_alone: bool = False) -> bytes:
    """An archive of a checkout's files that git does not ignore; the same files give the same bytes. With
    `code_alone`, only of tritonproof/, which a task imports. Raises SetupError if git cannot list them."""
    try:
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = output_of(command, limit_s=60)
    except ProgramError as error:
        what = f"git cannot list the files that the nodes get: {error}"
        fix = "run a fleet from a clone of tritonproof's repository"
        raise SetupError(what, where=f"--fleet, from {root}", fix=fix) from error
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in sorted(os.fsdecode(listing).split("\0")):
            is_code = name.startswith("tritonproof/") and name.endswith(".py")
            if (is_code or not code_alone) and (root / name).is_file():
                file = (root / name).read_bytes()
                archive.writestr(zipfile.ZipInfo(name), file, zipfile.ZIP_DEFLATED, compresslevel=1)
    return content.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(folder)


def code_importer(code: bytes) -> Callable[[], None]:
    """A function that makes packed code importable in a process that has nothing of this project. The code
    lies in the node's cache, in a folder that is named after its digest and never changed. Ray's working
    directory will not do: nodes on one host share it, and each that joins replaces it under the others."""
    digest = hashlib.sha256(code).hexdigest()[:16]

    def import_code() -> None:
        # Ray pickles this function by value: it may use only Python's own modules, so repeats `cache_folder`.
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = Path(os.environ.get(CACHE) or home / "tritonproof-fleet") / "code"
        folder = cache / digest
        if not folder.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                unpacked = Path(temporary) / "code"
                with zipfile.ZipFile(io.BytesIO(code)) as archive:
                    archive.extractall(unpacked)
                with contextlib.suppress(OSError):  # another worker was first
                    unpacked.rename(folder)
        sys.path.insert(0, str(folder))

    return import_code


def node_variables(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables that `ray start` was called with on this node, without those of Ray, and of
    continuous integration, to which the controller reports, not the node.

    The variables of this process will not do, as Ray changes them for a task: they limit threads to the CPUs
    that the task asked for, and by LD_PRELOAD replace the allocator with jemalloc, so that the server and the
    load generator would not be what they are in a run without Ray.
    """
    started_with = psutil.Process(os.getppid()).environ() if variables is None else variables
    prefixes = ("GITHUB_", "TOX_", "RAY_", "LD_PRELOAD")
    return {name: value for name, value in started_with.items() if not name.startswith(prefixes)}


def cache_folder(variables: Mapping[str, str]) -> Path:
    """Where this node keeps environments and builds from one run to the next."""
    home = Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(variables.get(CACHE) or home / "tritonproof-fleet")


def python_for(device: str, checkout: Path, variables: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The Python with the packages of the checkout's benchmarks on this node, for a device ("cpu" or "cuda").
    Raises SetupError with the end of tox's output if it cannot make the environment."""
    if named_python := variables.get(PYTHON):
        return Path(named_python)
    name = "benchmarks"
    if device != "cpu":
        gpus = nvml.installed_gpus(None)
        capability = gpus[0].compute_capability if gpus else None
        name = gpu_environment(capability, nvml.cuda_of_driver(), tensorrt=True)
    digest = hashlib.sha256(b"".join((checkout / file).read_bytes() for file in _FILES)).hexdigest()[:16]
    folder = cache_folder(variables) / "environments" / digest
    marker = folder / f"{name}.made"
    folder.mkdir(parents=True, exist_ok=True)
    waits = f"wait for the environment {name}, which another run makes: "
    with locks.hold_path(folder / name, on_wait=lambda holder: say(waits + holder)):
        if not marker.is_file():
            say(f"tox makes the environment {name} in {folder}, once for this pyproject.toml")
            _make(name, folder, checkout, variables)
            marker.touch()  # an environment without the marker was interrupted, and is made anew
    return folder / name / "bin" / "python"


def _make(name: str, folder: Path, checkout: Path, variables: Mapping[str, str]) -> None:
    log = folder / f"{name}.log"
    command = [sys.executable, "-m", "tox", "run", "-e", name, "--notest", "--workdir", str(folder)]
    with (
        log.open("wb") as output,
        guarded(command, environment=variables, output=output, grace_s=5, folder=checkout) as process,
    ):
        status = process.wait()
    if status != 0:
        raise SetupError(
            f"tox cannot make the environment {name}: " + "\n".join(last_lines(log, 20)),
            where=log,
            fix=f"install tox where `ray start` ran ({sys.executable}), or name a Python that has the "
            f"packages by {PYTHON}",
        )
