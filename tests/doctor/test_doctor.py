"""The doctor says what is wrong, how bad it is, and what to do; on a sound machine it finds no problem."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.doctor import __main__ as doctor
from fixtures.doctor import formats, hardware, leftovers, network, packages, programs, space
from fixtures.doctor.finding import Finding, ok, problem, warning
from fixtures.doctor.leftovers import Process
from fixtures.host import locks, machine
from fixtures.serve import wheels
from fixtures.serve.choice import Choice
from fixtures.serve.command import Ports

ROOT = Path(__file__).parents[2]
EMBEDDED = Choice("embedded")


def states(*findings: Finding) -> list[str]:
    """Of each finding; one that is not ok has a cure."""
    assert all(bool(finding.cure) == (finding.state != "ok") for finding in findings)
    return [finding.state for finding in findings]


# --- Python and packages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "processor", "state"),
    [
        ((3, 11, 0), "x86_64", "ok"),
        ((3, 12, 9), "x86_64", "ok"),
        ((3, 10, 1), "x86_64", "problem"),
        ((3, 13, 0), "x86_64", "problem"),
        ((3, 11, 0), "aarch64", "problem"),
    ],
)
def test_a_python_that_triton_cannot_use_is_a_problem(
    version: tuple[int, ...], processor: str, state: str
) -> None:
    assert states(packages.python(version, processor)) == [state]


def test_a_missing_libpython_is_a_problem() -> None:
    assert states(packages.libpython()) == ["ok"]

    found = packages.libpython("3.99")

    assert states(found) == ["problem"]
    assert "libpython3.99.so.1.0" in found.found
    assert "apt-get install libpython3.99" in found.cure


def test_a_glibc_older_than_a_wheel_s_is_a_problem_that_names_the_wheel() -> None:
    needed = {"nvidia-pytriton": (2, 35), "torch": (2, 28)}

    assert states(packages.glibc(("glibc", "2.35"), needed)) == ["ok"]
    old = packages.glibc(("glibc", "2.31"), needed)
    assert states(old, packages.glibc(("musl", "1.2"), needed)) == ["problem", "problem"]
    assert "nvidia-pytriton needs 2.35" in old.found
    assert "torch" not in old.found


def test_the_installed_wheels_say_which_glibc_they_need() -> None:
    assert packages._glibc_of_wheels()["nvidia-pytriton"] == (2, 35)


def test_the_requirements_are_those_of_the_project_and_of_the_extra_in_use(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\ndependencies = ["a>=1"]\n[project.optional-dependencies]\ncpu = ["b"]\ngpu = ["c"]\n'
    )

    assert packages.requirements(file, "cpu") == ["a>=1", "b"]
    assert packages.requirements(file, "gpu") == ["a>=1", "c"]


@pytest.mark.parametrize(
    ("installed", "state", "text"),
    [
        ({"torch": "2.13.1", "numpy": "1.26.4"}, "ok", "all 2"),
        ({"torch": "2.13.1+cpu", "numpy": "1.26.4"}, "ok", "all 2"),
        ({"torch": "2.13.1", "numpy": "2.0.0"}, "problem", "numpy 2.0.0, needed is <2"),
        ({"numpy": "1.26.4"}, "problem", "missing: torch"),
        ({}, "problem", "not installed"),
    ],
)
def test_a_package_that_is_missing_or_out_of_range_is_named(
    installed: dict[str, str], state: str, text: str
) -> None:
    found = packages.packages(["torch~=2.13.0", "numpy<2"], installed.get)

    assert states(found) == [state]
    assert text in found.found


def test_two_builds_of_one_library_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_pip_check", list)
    one, both = {"onnxruntime": "1"}, {"onnxruntime": "1", "onnxruntime-gpu": "1"}

    assert states(packages.rivals(one.get), packages.rivals(both.get)) == ["ok", "problem"]

    monkeypatch.setattr(packages, "_pip_check", lambda: ["a 1 requires b>2, but you have b 1"])
    assert states(packages.rivals(one.get)) == ["warning"]


# --- programs ----------------------------------------------------------------------------------------------


def test_a_library_that_the_linker_does_not_find_is_named() -> None:
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}

    missing = programs.missing_libraries(wheels.perf_analyzer(), bare)

    assert "libcudart.so.12" in missing
    assert "nvidia-cuda-runtime-cu12" in programs._cure_of(missing)
    assert programs.missing_libraries(Path(sys.executable).resolve(), bare) == []


def test_the_load_generator_starts() -> None:
    found = programs.load_generator()

    assert states(found) == ["ok"]
    assert found.found.startswith("2.51.0")


@pytest.mark.parametrize(
    ("lines", "text"),
    [("exit 3", "ends with status 3"), ("echo old glibc >&2; exit 1", "ends with status 1: old glibc")],
)
def test_a_load_generator_that_does_not_start_is_a_problem(
    lines: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "perf_analyzer"
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)
    monkeypatch.setattr(wheels, "perf_analyzer", lambda: program)

    found = programs.load_generator()

    assert states(found) == ["problem"]
    assert text in found.found


def test_the_server_is_started_to_see_that_it_gets_ready(private_locks: Path) -> None:
    found = programs.triton(EMBEDDED, "cpu")

    assert states(found) == ["ok"]
    assert re.fullmatch(r"2\.51\.0, embedded, ready in \d+\.\d s", found.found)


def test_the_server_is_not_started_beside_a_measurement(private_locks: Path) -> None:
    with (private_locks / "machine.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        found = programs.triton(EMBEDDED, "cpu")

    assert states(found) == ["ok"]
    assert "another run measures" in found.found


def test_a_server_that_ends_at_once_is_a_problem_with_its_last_words(
    private_locks: Path, tmp_path: Path
) -> None:
    program = tmp_path / "tritonserver"
    program.write_text("#!/bin/sh\necho no licence\nexit 1\n")
    program.chmod(0o755)

    found = programs.triton(Choice("local", str(program)), "cpu")

    assert states(found) == ["problem"]
    assert found.found == "Triton ended with status 1 before it was ready no licence"


def test_a_remote_server_that_does_not_answer_is_a_problem() -> None:
    assert states(programs.triton(Choice("remote", "127.0.0.1:9"), "cpu")) == ["problem"]


def test_the_backends_of_a_server_on_this_machine_are_listed(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tritonserver"
    (tmp_path / "backends" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "backends" / "python").mkdir()
    program.parent.mkdir()
    program.touch(0o755)

    found = programs.native_backends(Choice("local", str(program)))

    assert found == ok("Triton's backends", f"onnxruntime, python in {tmp_path / 'backends'}")
    assert programs.native_backends(EMBEDDED) is None


def test_a_server_without_backends_is_a_problem(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    program.touch(0o755)

    found = programs.native_backends(Choice("local", str(program)))

    assert found is not None
    assert states(found) == ["problem"]


def test_a_missing_compiler_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)

    assert states(programs.compiler("cpu", lambda _name: None)) == ["warning"]
    assert states(programs.compiler("cpu", lambda name: f"/bin/{name}")) == ["ok"]


def test_on_a_gpu_the_compiler_needs_the_cuda_toolkit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)

    def found(name: str) -> str | None:
        return "/bin/g++" if name == "g++" else None

    assert states(programs.compiler("cuda", found, tmp_path / "none")) == ["warning"]
    assert states(programs.compiler("cuda", found, tmp_path)) == ["ok"]


def test_formats_that_skip_are_named_with_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")

    found = formats.formats("cpu")

    assert states(found) == ["warning"]
    assert "pt2-fp32" in found.found
    assert "no-such-compiler is not on PATH" in found.cure


# --- hardware ----------------------------------------------------------------------------------------------


def test_a_gpu_s_driver_and_packages_must_fit() -> None:
    def look(driver: int, torch: str) -> Finding:
        return hardware.gpu(EMBEDDED, ["NVIDIA A100"], driver, torch)

    assert "PyTorch is missing or a build for CPUs" in look(12, "").found
    assert "its driver is for CUDA 11, PyTorch for 12.8" in look(11, "12.8").found
    assert "ONNX Runtime is the build for CPUs" in look(12, "12.8").found
    assert states(look(12, ""), look(11, "12.8"), look(12, "12.8")) == ["problem"] * 3


def test_a_gpu_with_its_packages_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "version_of", lambda _name: "1.23")

    assert states(hardware.gpu(EMBEDDED, ["NVIDIA A100"], 13, "12.8")) == ["ok"]


def test_a_container_brings_its_own_packages_for_the_gpu() -> None:
    assert states(hardware.gpu(Choice("docker", "image"), ["NVIDIA A100"], 12, "")) == ["ok"]


def test_a_gpu_whose_driver_does_not_answer_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert states(hardware.gpu(EMBEDDED, [], on_bus=True), hardware.gpu(EMBEDDED, [], on_bus=False)) == [
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
    assert not hardware._is_on_bus(tmp_path)
    put("gpu", "0x10de", "0x030200")
    assert hardware._is_on_bus(tmp_path)


def test_the_cuda_of_pytorch_is_read_without_importing_it() -> None:
    import torch

    assert hardware._torch_cuda() == (torch.version.cuda or "")


@pytest.mark.parametrize(
    ("flags", "state", "text"),
    [
        ({"avx2"}, "ok", "AVX2, no VNNI: INT8 in 7 bits, no BF16"),
        ({"avx2", "avx512f", "avx512_vnni", "amx_bf16"}, "ok", "AVX-512, 8-bit products (VNNI), AMX"),
        (set(), "warning", "without AVX2"),
    ],
)
def test_a_cpu_is_told_by_what_its_cases_need(flags: set[str], state: str, text: str) -> None:
    found = hardware.cpu("Some CPU", flags)

    assert states(found) == [state]
    assert text in found.found


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

    assert hardware._cgroup_cores(tmp_path) == limit


def test_fewer_cores_than_are_seen_are_a_warning() -> None:
    assert states(hardware.cores(1.5, 8), hardware.cores(8.0, 8)) == ["warning", "ok"]
    assert "taskset -c 0-1 " in hardware.cores(2.5, 8).cure


def test_a_governor_that_saves_power_is_a_warning(tmp_path: Path) -> None:
    assert states(hardware.governor(tmp_path)) == ["ok"]
    file = tmp_path / "cpu0" / "cpufreq" / "scaling_governor"
    file.parent.mkdir(parents=True)
    file.write_text("powersave\n")
    assert states(hardware.governor(tmp_path)) == ["warning"]
    file.write_text("performance\n")
    assert states(hardware.governor(tmp_path)) == ["ok"]


def test_a_slow_clock_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "current_clocksource").write_text("hpet\n")
    assert states(hardware.clock(tmp_path)) == ["warning"]
    (tmp_path / "current_clocksource").write_text("tsc\n")
    assert states(hardware.clock(tmp_path)) == ["ok"]


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

    found = hardware.quiet(lambda: next(looks), lambda _seconds: None)

    assert states(found) == [state]
    assert text in found.found


# --- space and network -------------------------------------------------------------------------------------


def test_memory_is_weighed_against_what_cases_take() -> None:
    assert states(space.memory(2.0), space.memory(9.0), space.memory(20.0)) == ["warning", "ok", "ok"]
    assert "INT8 calibration takes 11.3 GiB" in space.memory(9.0).found
    assert "served" not in space.memory(9.0).found


def test_a_control_group_may_leave_less_memory_than_the_machine_has(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n")
    assert space._available_gib(meminfo, tmp_path) == 16
    (tmp_path / "memory.max").write_text(f"{4 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**30}\n")
    assert space._available_gib(meminfo, tmp_path) == 3
    (tmp_path / "memory.max").write_text("max\n")
    assert space._available_gib(meminfo, tmp_path) == 16


def test_little_shared_memory_is_a_warning_and_hardly_any_a_problem() -> None:
    assert states(*map(space.shared_memory, (8, 64, 2048))) == ["problem", "warning", "ok"]


def test_a_disk_that_is_nearly_full_is_told_with_its_folder(tmp_path: Path) -> None:
    gib = 2**30
    findings = [space.disks([tmp_path], lambda _folder, free=free: free * gib) for free in (0.1, 2, 50)]  # type: ignore[misc]

    assert states(*findings) == ["problem", "warning", "ok"]
    assert str(tmp_path) in findings[0].found


def test_a_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)

    assert states(space.disks([tmp_path]), space.shared_memory()) == ["problem", "problem"]


def test_a_temporary_folder_without_execution_is_a_warning(tmp_path: Path) -> None:
    assert states(space.executable_temporary_files(tmp_path, os.ST_NOEXEC)) == ["warning"]
    assert states(space.executable_temporary_files(tmp_path, 0)) == ["ok"]


def test_few_file_descriptors_are_a_warning() -> None:
    assert states(space.descriptors(256), space.descriptors(1024), space.descriptors(-1)) == [
        "warning",
        "ok",
        "ok",
    ]


def test_a_loopback_that_does_not_answer_is_a_problem() -> None:
    def refuse() -> Ports:
        raise OSError(101, "Network is unreachable")

    assert states(network.loopback(), network.loopback(refuse)) == ["ok", "problem"]


def test_proxies_are_named() -> None:
    found = network.proxies({"http_proxy": "x", "HTTPS_PROXY": "y", "no_proxy": "z"})

    assert states(found) == ["ok"]
    assert found.found.startswith("HTTPS_PROXY, http_proxy:")


# --- leftovers ---------------------------------------------------------------------------------------------

INIT = Process(1, 0, ("/sbin/init",))
GUARD = Process(10, 1, ("python", "-I", "-S", "/somewhere/fixtures/host/guard.py", "--caller", "9"))
GUARDED = Process(11, 10, ("/opt/tritonserver", "--id=tritonproof-abc"))
STUB = Process(12, 11, ("/x/triton_python_backend_stub",))
LEFT = Process(20, 1, ("/opt/tritonserver",))


def by_id(*processes: Process) -> dict[int, Process]:
    return {one.pid: one for one in processes}


def test_a_server_without_a_guard_is_left_over() -> None:
    sound = leftovers.processes(by_id(INIT, GUARD, GUARDED, STUB))
    found = leftovers.processes(by_id(INIT, GUARD, GUARDED, STUB, LEFT))

    assert states(sound, found) == ["ok", "warning"]
    assert found.cure.startswith("kill 20,")


def test_own_processes_are_seen_with_their_parents() -> None:
    found = leftovers.own_processes()[os.getpid()]

    assert found.parent == os.getppid()
    assert Path(found.command[0]).name.startswith("python")


def test_a_segment_that_no_process_uses_is_left_over(tmp_path: Path) -> None:
    used, left, strange = (tmp_path / name for name in ("tritonproof-a", "INPUT__0_3", "somebody-else"))
    for path in (used, left, strange):
        path.write_bytes(b"tensor")

    found = leftovers.segments(tmp_path, mapped=[used])

    assert states(found) == ["warning"]
    assert found.cure == f"rm {left}"


def test_a_folder_of_a_run_that_is_gone_is_left_over(tmp_path: Path) -> None:
    alive, left, empty = (
        tmp_path / name for name in ("tritonproof-abc", "tritonproof-xyz", "python_env_aaaaaa")
    )
    for path in (alive, left, tmp_path / locks.folder().name):
        path.mkdir()

    none = leftovers.folders(tmp_path / "nowhere", {}, [], tmp_path)
    found = leftovers.folders(tmp_path, by_id(GUARD, GUARDED), [empty])

    assert states(none, found) == ["ok", "warning"]
    assert found.found.startswith("1 of killed runs and servers (tritonproof-xyz); 1 empty")
    assert found.cure.startswith(f"rm -r {left}; ")


def test_links_that_another_user_may_have_put_there_are_no_leftovers(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.pbtxt").touch()
    (own / "tritonproof-a").symlink_to(own / "config.pbtxt")
    for name in ("tritonproof-a", "folderAbC123"):
        (tmp_path / name).symlink_to(own)

    found = leftovers.folders(tmp_path, {}, [], tmp_path)

    assert states(found, leftovers.segments(own, mapped=[])) == ["ok", "ok"]


def test_a_cure_can_be_pasted_whatever_a_leftover_is_called(tmp_path: Path) -> None:
    segment, folder = tmp_path / "tritonproof-a; touch x", tmp_path / "tritonproof-$(touch x)"
    segment.touch()
    folder.mkdir()

    assert leftovers.segments(tmp_path, mapped=[]).cure == f"rm '{segment}'"
    assert leftovers.folders(tmp_path, {}, [], tmp_path).cure == f"rm -r '{folder}'"


def test_a_model_that_was_sent_to_a_server_that_is_gone_is_left_over(tmp_path: Path) -> None:
    sent, other = tmp_path / "folderAbC123", tmp_path / "folderXyZ789"
    for path in (sent, other):
        path.mkdir()
    (sent / "config.pbtxt").touch()

    serving = leftovers.folders(tmp_path / "nowhere", by_id(LEFT), [], tmp_path)
    found = leftovers.folders(tmp_path / "nowhere", {}, [], tmp_path)

    assert states(serving, found) == ["ok", "warning"]
    assert found.cure == f"rm -r {sent}"


@pytest.fixture
def private_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks that no other run knows."""
    monkeypatch.setattr(locks, "folder", lambda: tmp_path)
    return tmp_path


def test_who_holds_the_machine_is_named(private_locks: Path) -> None:
    free = leftovers.lock()
    with locks.hold_machine(exclusive=True):
        held = leftovers.lock()

    assert states(free, held, leftovers.lock()) == ["ok", "warning", "ok"]
    assert f"process {os.getpid()} (" in held.found


def test_who_only_waits_for_the_lock_does_not_hold_it() -> None:
    table = "1: FLOCK  ADVISORY  WRITE 71 fe:00:42 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 72 fe:00:42 0 EOF\n"
    table += "2: POSIX  ADVISORY  READ 73 fe:00:42 0 EOF\n"

    assert list(leftovers._holders(table, 42)) == [71]
    assert list(leftovers._holders(table, 4)) == []


def test_half_written_builds_and_unreadable_records_are_named(tmp_path: Path) -> None:
    results, builds = tmp_path / "results", tmp_path / "builds"
    (results / "cpu" / "superseded").mkdir(parents=True)
    (results / "cpu" / "superseded" / "old.json").touch()
    noted = leftovers.files(results, builds)
    (builds / "cpu" / ".cpu-a.unfinished").mkdir(parents=True)
    (results / "cpu" / "a.json.unreadable").touch()
    found = leftovers.files(results, builds)

    assert states(noted, found) == ["ok", "warning"]
    assert "1 records of other machines" in noted.found
    assert ".cpu-a.unfinished" in found.found
    assert "a.json.unreadable" in found.found


# --- the command line --------------------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> int:
    """The command line with these findings alone."""
    given = [(finding.name, lambda finding=finding: finding) for finding in findings]
    monkeypatch.setattr(doctor, "checks", lambda _choice: iter(given))
    return doctor.main([])


def test_the_status_is_1_only_where_the_benchmarks_would_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, ok("CPU", "fast"), warning("disk", "small", "free some")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok       CPU                 fast",
        "warning  disk                small",
        "                             cure: free some",
        "",
        "no problems, 1 warning: the benchmarks can run",
    ]
    assert run(monkeypatch, problem("libpython", "none", "install it")) == 1
    assert "1 problem, no warnings: the benchmarks would stop" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), subprocess.TimeoutExpired("ldd", 1), ValueError("odd")]
)
def test_a_check_that_fails_does_not_hide_the_others(error: Exception) -> None:
    def check() -> Finding:
        raise error

    assert states(doctor.examined("disk", check)) == ["warning"]  # type: ignore[arg-type]


def test_an_environment_that_is_not_there_yet_is_no_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = [("packages", lambda: problem("packages", "none", "install")), ("CPU", lambda: ok("CPU", "fast"))]
    monkeypatch.setattr(doctor, "checks", lambda _choice: iter(given))

    assert doctor.main(["--environment", str(tmp_path / "benchmarks")]) == 0
    printed = capsys.readouterr().out
    assert "not installed yet" in printed
    assert "tox run -e benchmarks" in printed
    assert "problem  packages" not in printed


def test_every_check_is_made_once_and_has_a_name_of_its_own() -> None:
    names = [name for name, _ in doctor.checks(EMBEDDED)]

    assert len(names) == len(set(names))
    assert set(doctor._OF_PACKAGES) <= set(names)
    assert max(map(len, names)) < doctor._NAME_WIDTH + 1


def test_it_works_in_a_python_that_has_no_packages_at_all() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _WITHOUT_PACKAGES, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stderr == ""
    assert done.returncode == 1
    assert "problem  packages            not installed" in done.stdout
    assert "ok       CPU " in done.stdout


_WITHOUT_PACKAGES = """
import sys
sys.path.insert(0, sys.argv[1])
from fixtures.doctor.__main__ import main
sys.exit(main([]))
"""
