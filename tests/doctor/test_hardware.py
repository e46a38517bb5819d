"""The processor and the GPU: what they cannot do, and what disturbs a measurement."""

import os
from pathlib import Path

import pytest

from fixtures.doctor import hardware
from fixtures.doctor.finding import Finding
from fixtures.host import locks, machine
from tests.doctor.findings import states


@pytest.fixture
def gpu_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ONNX Runtime for GPUs is installed."""
    monkeypatch.setattr(machine, "version_of", {"onnxruntime-gpu": "1.28.0"}.get)


def look(driver: int, torch: str) -> Finding:
    return hardware.gpu(["NVIDIA A100"], driver, torch)


def test_packages_for_cpus_are_a_problem_whichever_server_is_meant() -> None:
    """A container serves with its own, but what it serves is converted and compared by this machine's."""
    found = look(13, "")

    assert states(found) == ["problem"]
    assert "PyTorch is missing or a build for CPUs" in found.found
    assert "ONNX Runtime is the build for CPUs" in found.found
    assert found.cure.startswith(".venv/bin/tox run -e benchmarks-gpu,")


@pytest.mark.parametrize(
    ("driver", "torch", "cure"),
    [
        (12, "13.0", ".venv/bin/tox run -e benchmarks-gpu-cuda12; or install a driver for CUDA 13.0"),
        (11, "12.6", "install a driver for CUDA 12.6"),
    ],
)
def test_a_driver_older_than_pytorch_s_cuda_is_a_problem_with_the_set_that_it_can_run(
    gpu_packages: None, driver: int, torch: str, cure: str
) -> None:
    found = look(driver, torch)

    assert states(found) == ["problem"]
    assert f"driver for CUDA {driver}, but PyTorch is for CUDA {torch}" in found.found
    assert found.cure == cure


def test_pytorch_for_the_gpu_alone_is_not_enough() -> None:
    found = look(13, "13.0")

    assert states(found) == ["problem"]
    assert "PyTorch" not in found.found
    assert found.cure == ".venv/bin/tox run -e benchmarks-gpu"


def test_a_gpu_with_its_packages_is_well(gpu_packages: None) -> None:
    assert states(look(13, "12.8"), look(13, "13.0")) == ["ok"] * 2


def test_a_gpu_whose_driver_does_not_answer_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert states(hardware.gpu([], on_bus=True), hardware.gpu([], on_bus=False)) == [
        "warning",
        "ok",
    ]


def test_an_nvidia_gpu_is_seen_on_the_bus(tmp_path: Path) -> None:
    def put(name: str, vendor: str, kind: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")

    put("network", "0x15b3", "0x020000")
    put("bridge", "0x10de", "0x060400")
    assert not hardware.is_on_bus(tmp_path)
    put("gpu", "0x10de", "0x030200")
    assert hardware.is_on_bus(tmp_path)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_a_control_group_is_read(
    files: dict[str, str], limit: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert machine.cgroup_cores(tmp_path) == limit


def test_fewer_cores_than_are_seen_are_a_warning() -> None:
    assert states(hardware.cores(1.5, 8), hardware.cores(8.0, 8)) == ["warning", "ok"]
    assert "taskset -c 0-1 " in hardware.cores(2.5, 8).cure


def test_who_holds_the_machine_is_named(private_locks: Path) -> None:
    free = hardware.lock()
    with locks.hold_machine(exclusive=True):
        held = hardware.lock()

    assert states(free, held, hardware.lock()) == ["ok", "warning", "ok"]
    assert f"process {os.getpid()} of " in held.found


@pytest.mark.parametrize(
    ("after", "state", "text"),
    [
        (
            [2, 0, 0, 98, 0, 0, 0, 0],
            "ok",
            "other programs use 2% of the cores, the host of a virtual machine 0%",
        ),
        ([50, 0, 0, 50, 0, 0, 0, 0], "warning", "other programs use 50%"),
        ([1, 0, 0, 89, 0, 0, 0, 10], "warning", "use 1% of the cores, the host of a virtual machine 10%"),
    ],
)
def test_a_machine_that_is_not_quiet_is_a_warning(after: list[int], state: str, text: str) -> None:
    looks = iter([[0] * 8, after])

    found = hardware.other_load(lambda: next(looks), lambda _seconds: None)

    assert states(found) == [state]
    assert text in found.found
