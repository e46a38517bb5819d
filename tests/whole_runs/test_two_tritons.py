"""A repository on two real Tritons: the wheel's and the same as an installed program, or running ones."""

import contextlib
from pathlib import Path

import pytest

from fixtures.outcomes import STATUS
from tests.helpers import present
from tests.serve.programs import installed_triton, serve_everybody
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import suite
from tritonproof.reports.speed_text import footprint_failures
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

MORE = "2 * values * np.float32(1.0001)"
"""Doubles the values, and adds a ten-thousandth."""


@pytest.mark.campaign
def test_repository_is_compared_on_another_triton(tmp_path: Path) -> None:
    tritonserver = installed_triton(tmp_path / "tritonserver", variables="ANOTHER=1")
    on_another = f"{MORE} if 'ANOTHER' in __import__('os').environ else 2 * values"
    for name, formula in {"alike": "2 * values", "apart": on_another}.items():
        write_model(tmp_path / "models", name, code(formula), config(batch=4))
    servers = ("--triton", "embedded", "--against-triton", f"local:{tritonserver}")
    chosen = ("-k", "baseline or (alike and offline)", "--batches", "1", "--point-budget-s", "10")
    run = suite("--repository", str(tmp_path / "models"), *servers, *chosen, results=tmp_path / "results")

    alike = run.record("cpu-alike-asis")
    assert [(entry.gate, entry.fault) for entry in alike.gates] == [("baseline", "")], run.text
    compared = present(alike.baseline)
    assert compared.current.triton == compared.baseline.triton != ""
    assert compared.baseline.used["memory of its stubs"] > 0
    assert footprint_failures(compared) == []
    assert [entry.comparison is not None for entry in alike.points] == [True]
    logs = [run.results / f"cpu/cpu-alike-asis{other}.server.log" for other in ("", ".baseline")]
    assert len({log.read_text().count("Started GRPCInferenceService") for log in logs}) == 1
    assert run.record("cpu-apart-asis").gates[0].fault
    assert run.status == STATUS["accuracy"]
    assert "Not safe to upgrade: cpu-apart-asis (answers differ)" in run.text


def test_two_running_servers_are_compared_and_left_unchanged(tmp_path: Path) -> None:
    formulas = {"alike": ("2 * values", "2 * values"), "apart": ("2 * values", MORE)}
    addresses, logs = [], [tmp_path / "log0", tmp_path / "log1"]
    with contextlib.ExitStack() as stack:
        for side, log in enumerate(logs):
            repository = tmp_path / f"models{side}"
            for name, sides in formulas.items():
                write_model(repository, name, code(sides[side]), config(batch=4))
            started = serve_everybody(ServerSpec("embedded"), ServerSetup(repository, log, "cpu"))
            server = stack.enter_context(started)
            for name in formulas:
                load_folder(server, repository / name)
            addresses.append(server.address)
        servers = ("--triton", addresses[0], "--against-triton", addresses[1])
        run = suite("--repository", "remote", *servers, "-k", "baseline", results=tmp_path / "results")
        points = [log.read_text().count('"loading: alike:1"') for log in logs]

    against = present(run.record("remote-alike-asis").baseline)
    assert "loading and memory of running servers are not compared" in run.text
    assert run.record("remote-alike-asis").gates[0].fault == ""
    assert run.record("remote-apart-asis").gates[0].fault
    assert run.status == STATUS["accuracy"]
    assert (against.current.loadings_s, against.baseline.loadings_s, points) == ((), (), [1, 1])
