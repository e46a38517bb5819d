"""The server's memory for the tensors of requests: large enough for the largest batch, by options that it knows."""

import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.cases import cases_of, matrix_of
from fixtures.host.targets import CPU, recognise
from fixtures.serve import wheels
from fixtures.serve.command import environment_of
from fixtures.serve.launch import serve
from fixtures.serve.memory_pools import pool_options
from fixtures.serve.server_spec import Choice
from fixtures.spec import Case

A100 = recognise("NVIDIA A100")
MIB = 2**20


def case_of(model: str) -> Case:
    return next(case for case in cases_of(A100) if case.model.name == model)


def sizes(options: list[str]) -> dict[str, int]:
    """Bytes of each pool, by the option up to the size: `--cuda-memory-pool-byte-size=0:`."""
    found = {}
    for option in options:
        name, _, value = option.partition("=")
        gpu, _, size = value.rpartition(":")
        found[f"{name} {gpu}".strip()] = int(size)
    return found


def test_the_pools_hold_the_largest_batch_of_volumes_with_its_answers() -> None:
    case = case_of("nnunet")
    deployment = matrix_of(case.model, A100).deployment
    volumes = deployment.max_batch_size * case.model.inputs[0].row_bytes
    assert volumes > 64 * MIB, "more than Triton's own pool"
    for size in sizes(pool_options(case, deployment)).values():
        assert 2 * deployment.instances * volumes < size < 16 * 2**30


def test_small_models_leave_triton_its_own_sizes() -> None:
    case = case_of("resnet50-micro")
    found = sizes(pool_options(case, matrix_of(case.model, A100).deployment))
    assert found == {
        "--pinned-memory-pool-byte-size": 256 * MIB,
        "--cuda-memory-pool-byte-size 0": 64 * MIB,
    }


def test_each_gpu_has_a_pool_and_each_instance_its_share() -> None:
    case = case_of("nnunet")
    one = matrix_of(case.model, A100).deployment
    two = structs.replace(one, instances=2 * one.instances)
    before, after = (sizes(pool_options(case, deployment, gpus=2)) for deployment in (one, two))
    assert before.keys() == {
        "--pinned-memory-pool-byte-size",
        "--cuda-memory-pool-byte-size 0",
        "--cuda-memory-pool-byte-size 1",
    }
    assert all(after[name] == pytest.approx(2 * before[name], rel=0.01) for name in before)
    of_one_gpu = sizes(pool_options(case, one, gpus=1))
    pinned = "--pinned-memory-pool-byte-size"
    assert before[pinned] == pytest.approx(2 * of_one_gpu[pinned], rel=0.01), "the host's is for all GPUs"


def test_a_server_on_a_cpu_is_started_as_ever() -> None:
    case = next(iter(cases_of(CPU)))
    assert pool_options(case, matrix_of(case.model, CPU).deployment) == []


def test_triton_knows_the_options(tmp_path: Path) -> None:
    environment = environment_of(Choice("embedded"), "cpu", tmp_path)
    program = wheels.embedded_triton() / "bin" / "tritonserver"
    said = subprocess.run([program, "--help"], env=environment, capture_output=True, text=True, check=False)
    case = case_of("nnunet")
    for option in pool_options(case, matrix_of(case.model, A100).deployment):
        assert f"{option.partition('=')[0]} <" in said.stdout + said.stderr


def test_a_server_is_started_with_them(tmp_path: Path) -> None:
    """It refuses what it does not know, and says what it has reserved."""
    log = tmp_path / "log"
    (tmp_path / "models").mkdir()
    options = ["--pinned-memory-pool-byte-size=1048576", "--cuda-memory-pool-byte-size=0:1048576"]
    with serve(Choice("embedded"), tmp_path / "models", log, device="cpu", options=options) as server:
        assert server.is_live()
    assert "pinned_memory_pool_byte_size     | 1048576" in log.read_text()
