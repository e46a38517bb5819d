"""Loading and starting share the machine, and never overlap a measurement."""

from pathlib import Path

from tests.helpers import run_pytest

TESTS = """\
import contextlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.host import locks
from fixtures.models import all_models
from fixtures.run import case_run, models, serving

HELD = {}
MACHINE = Path(os.environ["TMPDIR"]) / "above" / "machine"  # one that no other run knows
MACHINE.mkdir(parents=True)
locks.machine = lambda: MACHINE


def is_held():
    return os.getpid() in locks.holders(locks.machine().stat())


def noting(name):
    def call(*_arguments, **_options):
        HELD[name] = is_held()
        return SimpleNamespace(kind="embedded")

    return call


@contextlib.contextmanager
def serve(*_arguments, **_options):
    yield noting("server")()


for one in all_models():
    for name in ("load", "samples"):
        object.__setattr__(one, name, noting(name))
models.reference_on = noting("reference")
case_run.runtimes.open_in_process = noting("converted")
serving.serve = serve


@pytest.mark.stage("accuracy")
def test_all(run):
    run.build = SimpleNamespace(case=run.case, digest="0", folder=Path("models/model"), artifact=None, reused=True)
    shared = run.of_model.weights, run.of_model.samples, run.of_model.reference, run.converted, run.server
    assert HELD == dict.fromkeys(["load", "samples", "reference", "converted", "server"], True)
    assert not is_held(), "nobody could measure beside what only runs"
"""


def test_loading_shares_the_machine_and_running_does_not(tmp_path: Path) -> None:
    file = tmp_path / "test_of_machine.py"
    file.write_text(TESTS)

    selection = ("-k", "cpu-resnet50-micro-onnx-fp32", "--results", str(tmp_path / "results"))
    result = run_pytest(str(file), "-p", "conftest", *selection, TMPDIR=str(tmp_path))

    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
