"""No file that another may have made is opened but by `fixtures.safe_io`, where it is looked at first and cut to a size."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_METHODS = ("read_text", "read_bytes", "open")
_FUNCTIONS = ("open", "np.load", "np.fromfile", "np.loadtxt", "np.genfromtxt", "onnx.load")
_OPENERS_OF_STREAMS = ("os", "tarfile", "wave", "Image", "archive")
"""What opens what is open already, or, as `os.open`, says by its flags what it follows and waits for."""

KERNEL = "the kernel's own files, below /proc and /sys"
LOG = "writes a log into a folder of its own"
OWN = "a file of this checkout"
OURS = {
    "build/repository.py": OWN,
    "doctor/gpu.py": KERNEL,
    "doctor/machine.py": KERNEL,
    "doctor/packages.py": OWN,
    "against/checkouts.py": LOG,
    "efficiency/in_process_worker.py": "what the process that started it has put into its folder",
    "fleet/cluster.py": "writes to the null device",
    "fleet/environment.py": "a checkout that the run has just unpacked, a log of its own, and /proc",
    "fleet/reporting.py": "records that this run has just written",
    "formats/onnx.py": "the export that it has just made",
    "frameworks/cuda_libraries.py": "packages that are installed",
    "frameworks/onnx_files.py": "the network once more, after it was read by `content` and opened by ONNX Runtime",
    "host/digests.py": "by its callers' hands: after `check_regular`, or in a folder of the run's own",
    "host/guard.py": KERNEL,
    "host/lock_holders.py": KERNEL,
    "host/machine.py": KERNEL,
    "host/memory.py": KERNEL,
    "host/shared_library.py": "libraries that are about to be loaded",
    "measure/perf_analyzer.py": LOG,
    "measure/shared_memory.py": KERNEL,
    "new.py": OWN,
    "run/recorder.py": "the configuration of a build in use, a copy of the run's own",
    "run/ending.py": KERNEL,
    "serve/cleanup.py": KERNEL,
    "serve/container.py": f"{KERNEL}, and {LOG}",
    "serve/launch.py": LOG,
    "serve/remote_names.py": KERNEL,
    "serve/sent_files.py": "a build in use, a copy of the run's own",
    "soak/usage.py": KERNEL,
}
"""The files that open without `fixtures.safe_io`, each with the reason: nobody else has made what they open."""


def opens(file: Path) -> Iterator[str]:
    """What of a file's code opens another by its name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in _FUNCTIONS or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in _METHODS
            and ast.unparse(node.func.value) not in _OPENERS_OF_STREAMS
        ):
            yield called


def test_what_another_may_have_made_is_opened_in_one_place() -> None:
    fixtures = ROOT / "fixtures"
    found = {
        name: list(opens(path))
        for path in fixtures.rglob("*.py")
        if not (name := path.relative_to(fixtures).as_posix()).startswith("safe_io/")
    }
    beside = {name: calls for name, calls in found.items() if calls}

    assert {name: calls for name, calls in beside.items() if name not in OURS} == {}, (
        "open it by fixtures.safe_io.files, or say in OURS why nobody else can have made it"
    )
    assert OURS.keys() - beside.keys() == set(), "these open nothing any more"
