"""tox's environments have the extras of their names; docs/gpus.md agrees with them and their libraries."""

import configparser
import re
from fnmatch import fnmatchcase

import pytest

from tests.frameworks.gpu_packages import SETS, admitted, requirements, runs_on
from tests.helpers import ROOT, cells, environments, present, project_file
from tritonproof.frameworks import gpu_libraries
from tritonproof.host import machine
from tritonproof.host.targets import TARGETS
from tritonproof.serve.container import RELEASES, why_unsupported

PAGE = (ROOT / "docs" / "gpus.md").read_text()
TOX = configparser.ConfigParser(interpolation=None)
TOX.read(ROOT / "tox.ini")
EXTRAS = {
    "benchmarks": {"cpu"},
    "benchmarks-gpu": {"gpu"},
    "benchmarks-gpu-trt": {"gpu", "trt"},
    "benchmarks-gpu-cuda12": {"gpu-cuda12"},
    "benchmarks-gpu-cuda12-trt": {"gpu-cuda12", "trt-cuda12"},
}


def rows(heading: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this heading, by column."""
    columns, *lines = cells(PAGE[PAGE.index(f"| {heading} |") :].partition("\n\n")[0])
    return [dict(zip((column.strip("`") for column in columns), line, strict=True)) for line in lines]


GPUS = rows("GPU")


def test_every_named_gpu_is_in_the_table() -> None:
    assert sorted(row["GPU"] for row in GPUS) == sorted(gpu.label for gpu in TARGETS if gpu.device == "cuda")


@pytest.mark.parametrize("row", GPUS, ids=lambda row: row["GPU"])
def test_row_matches_libraries_tensorrt_and_containers(
    row: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    major, minor = row["Compute capability"].split(".")
    capability = int(major), int(minor)
    for environment in ("benchmarks-gpu", "benchmarks-gpu-cuda12"):
        (extra,) = EXTRAS[environment]
        lack = {
            distribution
            for distribution in ("onnxruntime-gpu", "torch")
            for facts in admitted(extra, distribution).values()
            if not runs_on(facts, capability)
        }
        assert row[environment].startswith("no" if lack else "yes"), lack
    for version in ("10.16.1.11", "11.4.0.106"):
        monkeypatch.setattr(machine, "version_of", {"tensorrt-cu12": version}.get)
        assert (gpu_libraries.why_no_tensorrt(capability) is not None) == (row["TensorRT"] == "before 10.5")
    supported = [one.name for one in RELEASES if not why_unsupported(one.name, capability)]
    assert row["Container of Triton"].startswith(supported[0])
    assert (len(supported) == 1) == row["Container of Triton"].endswith("the last")


def test_environments_match_tox_and_extras() -> None:
    listed = {row["Environment of tox"].strip("`"): row for row in rows("Environment of tox")}
    assert {*listed, "benchmarks"} == {*EXTRAS}
    assert {*EXTRAS} == {env for env in environments() if env.startswith("benchmarks")}
    for name, row in listed.items():
        (extra,) = EXTRAS[name.removesuffix("-trt")]
        cuda, extra_of_tensorrt = SETS[extra]
        assert row["CUDA"] == str(cuda)
        assert requirements(extra_of_tensorrt), "the extra is there"
        if name.endswith("-trt"):
            continue
        match = present(re.search(r"ONNX Runtime (\d\.\d+)(?: to (\d\.\d+))?", row["Brings"]))
        versions = sorted(tuple(map(int, text.split(".")[:2])) for text in admitted(extra, "onnxruntime-gpu"))
        first, last = (".".join(map(str, version)) for version in (versions[0], versions[-1]))
        assert (match[1], match[2] or match[1]) == (first, last)


def lines_of(setting: str, environment: str) -> list[str]:
    """The lines of a setting for an environment: those without factors, and those whose factors it has."""
    factors = environment.split("-")
    lines = []
    for line in filter(None, map(str.strip, setting.splitlines())):
        condition, colon, value = line.partition(": ")
        if not colon or not re.fullmatch(r"[a-z0-9!-]+", condition):
            lines.append(line)
        elif all(
            (part.removeprefix("!") in factors) != part.startswith("!") for part in condition.split("-")
        ):
            lines.append(value.strip())
    return lines


@pytest.mark.parametrize("environment", EXTRAS)
def test_environment_has_extras_of_its_name_and_their_index(environment: str) -> None:
    settings = "\n".join(lines_of(TOX["testenv"]["set_env"], environment))
    assert set(lines_of(TOX["testenv"]["extras"], environment)) == EXTRAS[environment] | {"server", "models"}
    assert ("download.pytorch.org/whl/cu126" in settings) == ("cuda12" in environment)


VARIABLES = (
    *("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH"),
    *("NVIDIA_TF32_OVERRIDE", "TRITONPROOF_TRITON", "TRITONPROOF_SERVER_ENV", "TRT_VERSION"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"),
)


@pytest.mark.parametrize("section", ["testenv", "testenv:benchmarks", "testenv:doctor"])
def test_driver_and_docker_variables_pass_through_tox(section: str) -> None:
    """tox hides all others: without these a rootless Docker would not answer, and the GPU could change."""
    (name,) = (heading for heading in TOX.sections() if heading.partition("{")[0] == section)
    patterns = TOX[name].get("pass_env", "{[testenv]pass_env}")
    patterns = patterns.replace("{[testenv]pass_env}", TOX["testenv"]["pass_env"])
    assert not [name for name in VARIABLES if not any(fnmatchcase(name, one) for one in patterns.split())]


def test_pytest_leaves_out_no_folder_of_tests(pytestconfig: pytest.Config) -> None:
    """pytest would leave out tests/build, without a word, by its default of `norecursedirs`."""
    left_out = pytestconfig.getini("norecursedirs")
    files = [file.relative_to(ROOT) for file in (ROOT / "tests").rglob("test_*.py")]
    folders = {part for file in files for part in file.parts[:-1]}
    assert not [name for name in folders if any(fnmatchcase(name, pattern) for pattern in left_out)]


def test_proof_environment_needs_no_framework() -> None:
    project = project_file()["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    assert lines_of(TOX["testenv:prove"]["extras"], "prove") == ["server"]
    assert not [name for name in requirements if re.match("torch|tensorflow|onnx|transformers", name)]
