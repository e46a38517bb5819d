"""Are Python, its packages and the programs that a run starts (Triton, perf_analyzer, Docker) installed, in
the required versions and only once? Do they find their libraries, and start?"""

import platform
import sys
from collections.abc import Callable, Sequence

from tritonproof.base import commands
from tritonproof.base.errors import ProofError
from tritonproof.base.paths import SUITE
from tritonproof.doctor import Finding, ok, problem
from tritonproof.frameworks.gpu_libraries import cuda_of_onnx_runtime, cuda_of_torch
from tritonproof.host import locks
from tritonproof.host.machine import version_of
from tritonproof.host.process import ProgramError, last_lines, minimal_environment, run_program
from tritonproof.host.scratch import scratch_folder
from tritonproof.safe_io import files
from tritonproof.serve import wheels
from tritonproof.serve.container import check_docker, prepare_image
from tritonproof.serve.launch import serve
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Device

_IN_ONE_FOLDER = (
    ("onnxruntime", "onnxruntime-gpu"),
    ("tensorflow", "tensorflow-cpu"),
    ("tensorrt-cu12", "tensorrt-cu13"),
    ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
)
"""Pairs of distributions that overwrite each other's files."""
Installed = Callable[[str], str | None]


def python(
    version: Sequence[int] = sys.version_info[:3], machine: str = platform.machine(), *, embedded: bool = True
) -> Finding:
    """Whether there are wheels for this processor and Python, and the embedded Triton finds its libpython."""
    text = f"{'.'.join(map(str, version))} on {machine}, {sys.executable}"
    if machine != "x86_64":
        return problem(text, "Triton's wheels are for Linux on x86-64: use such a machine")
    if not embedded:
        return ok(text)
    if ".".join(map(str, version[:2])) not in wheels.PYTHONS:
        fix = f"make the environment {wheels.WITH_PYTHON}, or name a server with --triton"
        return problem(f"{text}, for which there is no embedded Triton", fix)
    return ok(f"{text}; its library is in {wheels.libpython(wheels.PYTHON)}")


def requirements(*, embedded: bool = True) -> list[str]:
    """The requirements in pyproject.toml: the project's own, with those of the embedded server, and if a
    framework is installed, those of the models and of the installed ONNX Runtime's extra."""
    file, what = SUITE / "pyproject.toml", "the list of the suite's packages"
    project = files.read_toml(file, what, "install the suite anew")["project"]
    extras = ["server"] if embedded else []
    if any(map(version_of, ("torch", "onnx", "onnxruntime", "onnxruntime-gpu"))):
        extra = "cpu"
        if version_of("onnxruntime-gpu") is not None:
            cuda = cuda_of_onnx_runtime() or int((cuda_of_torch() or "13").split(".")[0])
            extra = "gpu-cuda12" if cuda == 12 else "gpu"
        extras += ["models", extra]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(line for name in extras for line in optional[name])]


def packages(
    lines: Sequence[str] | None = None, installed: Installed = version_of, *, embedded: bool = True
) -> Finding:
    """Whether all packages are installed, in the ranges that pyproject.toml requires."""
    requirement_lines = requirements(embedded=embedded) if lines is None else lines
    with_models = f"with the suite's models {commands.packages_command(anew=True)}"
    installs = f"{commands.install_command('server' if embedded else 'load')}; or {with_models}"
    clashes = [" and ".join(pair) for pair in _IN_ONE_FOLDER if all(installed(name) for name in pair)]
    if clashes:
        removes = f"{sys.executable} -m pip uninstall {' '.join(clashes).replace(' and ', ' ')}"
        text = f"{'; '.join(clashes)} are both installed, and overwrite each other's files"
        return problem(text, f"{removes}, then install the one you want")
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return problem(f"not installed in {sys.prefix}", installs)
    needed = [
        requirement
        for requirement in map(Requirement, requirement_lines)
        if requirement.marker is None or requirement.marker.evaluate()
    ]
    missing = [requirement.name for requirement in needed if installed(requirement.name) is None]
    faults = [f"missing: {', '.join(missing)}"] if missing else []
    for requirement in needed:
        version, range_ = installed(requirement.name), requirement.specifier
        if version is not None and not range_.contains(version, prereleases=True):
            faults.append(f"{requirement.name} {version} is installed, not {range_}")
    if faults:
        return problem("; ".join(faults), installs)
    return ok(f"all {len(needed)} packages are installed, each in its range")


def _fix_of_program(name: str) -> str:
    library = "libb64 is in Debian's and Ubuntu's libb64-0d; apt-file search NAME finds others"
    return f"install the library that it names, if any ({library}), or run {name} by hand"


def load_generator() -> Finding:
    """Whether perf_analyzer is installed with its libraries, and starts."""
    program = wheels.perf_analyzer()
    environment = {**minimal_environment(), "LD_LIBRARY_PATH": wheels.perf_analyzer_libraries()}
    try:
        done = run_program([str(program), "--version"], environment=environment, limit_s=10.0)
    except ProgramError as error:
        return problem(str(error), f"install it again: {program}")
    last_line = (done.text + done.error_text).strip().rpartition("\n")[2]
    if done.status:
        return problem(f"ends with status {done.status}: {last_line}", _fix_of_program(str(program)))
    return ok(f"{last_line}, {program}")


def triton(spec: ServerSpec, device: Device) -> Finding:
    """Whether the server that a run would use gets ready, without a model."""
    if spec.kind == "docker":
        return _container(spec, device)
    if spec.is_remote:
        return _started(spec, device)

    def refuse(_holder: str) -> None:  # starting a server here would disturb the run that holds the machine
        raise BlockingIOError

    try:
        with locks.hold_machine(exclusive=False, on_wait=refuse):
            return _started(spec, device)
    except BlockingIOError:
        return ok(f"{spec.kind}; not started, because another run is measuring")


def _started(spec: ServerSpec, device: Device) -> Finding:
    with scratch_folder("doctor") as folder:
        (folder / "models").mkdir()
        try:
            with serve(spec, ServerSetup(folder / "models", folder / "server.log", device)) as server:
                ready = "" if server.ready_s is None else f", ready in {server.ready_s:.1f} s"
                return ok(f"{server.version}, {spec.kind}{ready}")
        except ProofError as error:
            last_line = "".join(last_lines(folder / "server.log", 1))
            fix = error.fix or _fix_of_program("the server")
            return problem(f"{error.what.splitlines()[0]} {last_line}".strip(), fix)


def _container(spec: ServerSpec, device: Device) -> Finding:
    engine = check_docker()
    if device == "cuda" and not engine.gives_gpus():
        register = "nvidia-ctk runtime configure --runtime=docker; systemctl restart docker"
        if engine.is_podman:
            register = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        text = "Docker answers, but gives no GPU, as NVIDIA's container toolkit is missing or not registered"
        return problem(text, f"install nvidia-container-toolkit; {register}")
    image = prepare_image(spec, device)
    return ok(f"Docker answers and has {image.name}; the doctor does not start it")
