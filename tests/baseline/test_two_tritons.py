"""A repository on two real Tritons: the suite starts the wheel's, and the same program as an installed
`tritonserver`; or both run already."""

import contextlib
import sys
from pathlib import Path

import pytest

from fixtures.serve import wheels
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import ServerSpec
from reports.record.verdicts import footprint_failures
from reports.run import STATUS
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import Run, suite

MODELS = {
    "alike": "2 * values",
    "apart": "2 * values * np.float32(1.0001 if 'ANOTHER' in __import__('os').environ else 1)",
}
"""The formula of each model: the second returns a ten-thousandth more on the other server."""
POINTS = ("--batches", "1", "--point-budget-s", "10")


@pytest.fixture(scope="module")
def tritonserver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's tritonserver with backends beside it, like an installed one."""
    root = tmp_path_factory.mktemp("tritonserver")
    wheels.backend_folder(root)
    program = root / "bin/tritonserver"
    program.parent.mkdir()
    libraries = f"{wheels.triton_libraries()}:{wheels.libpython()}"
    program.write_text(
        f"#!/bin/sh\nexport ANOTHER=1 LD_LIBRARY_PATH={libraries} PATH={Path(sys.executable).parent}:$PATH\n"
        f'exec {wheels.embedded_triton()}/bin/tritonserver "$@"\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def run(tritonserver: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on both."""
    repository = tmp_path_factory.mktemp("repository")
    for name, formula in MODELS.items():
        write_model(repository, name, code(formula), config(batch=4))
    servers = ("--triton", "embedded", "--against-triton", f"local:{tritonserver}")
    chosen = ("-k", "against or (alike and offline)")
    results = tmp_path_factory.mktemp("results")
    return suite("--repository", str(repository), *servers, *chosen, *POINTS, "-v", results=results)


@pytest.mark.campaign
def test_equal_answers_pass_and_speeds_are_compared(run: Run) -> None:
    record = run.record("cpu-alike-asis")

    assert [(entry.gate, entry.wrong) for entry in record.gates] == [("other", "")], run.text
    assert record.against is not None
    assert record.against.here.triton == record.against.there.triton != ""
    assert record.against.there.used["memory of its stubs"] > 0
    assert footprint_failures(record.against) == []
    assert [entry.comparison is not None for entry in record.loads] == [True]
    logs = [run.results / f"cpu/cpu-alike-asis{other}.server.log" for other in ("", ".against")]
    assert len({log.read_text().count("Started GRPCInferenceService") for log in logs}) == 1


@pytest.mark.campaign
def test_different_answer_on_another_triton_is_found(run: Run) -> None:
    (gate,) = run.record("cpu-apart-asis").gates

    assert gate.wrong
    assert run.status == STATUS["accuracy"]
    assert "Not safe to upgrade: cpu-apart-asis (answers differ)" in run.text


def test_two_running_servers_are_compared_and_left_unchanged(tmp_path: Path) -> None:
    formulas = {"alike": ("2 * values",) * 2, "apart": ("2 * values", "2 * values * np.float32(1.0001)")}
    with contextlib.ExitStack() as stack:
        addresses = []
        for side in (0, 1):
            repository = tmp_path / f"models{side}"
            for name, sides in formulas.items():
                write_model(repository, name, code(sides[side]), config(batch=4))
            started = serve(
                ServerSpec("embedded"), repository, tmp_path / f"log{side}", device="cpu", open_to_all=True
            )
            server = stack.enter_context(started)
            for name in formulas:
                server.load_as_found(repository / name)
            addresses.append(server.address)
        servers = ("--triton", addresses[0], "--against-triton", addresses[1])
        run = suite("--repository", "remote", *servers, "-k", "against", "-v", results=tmp_path / "results")
        loads = [(tmp_path / f"log{side}").read_text().count('"loading: alike:1"') for side in (0, 1)]

    against = run.record("remote-alike-asis").against
    assert against is not None, run.text
    assert run.record("remote-alike-asis").gates[0].wrong == ""
    assert run.record("remote-apart-asis").gates[0].wrong
    assert run.status == STATUS["accuracy"]
    assert (against.here.loads_s, against.there.loads_s, loads) == ((), (), [1, 1])
