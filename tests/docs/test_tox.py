"""Each tox environment has the extras that its name says."""

import configparser
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.docs.test_docs import environments
from tests.helpers import project_file

TOX = configparser.ConfigParser(interpolation=None)
ROOT = Path(__file__).parents[2]
TOX.read(ROOT / "tox.ini")
EXTRAS = {
    "benchmarks": {"cpu"},
    "benchmarks-gpu": {"gpu"},
    "benchmarks-gpu-trt": {"gpu", "trt"},
    "benchmarks-gpu-cuda12": {"gpu-cuda12"},
    "benchmarks-gpu-cuda12-trt": {"gpu-cuda12", "trt-cuda12"},
}


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


def test_every_benchmark_environment_is_tested() -> None:
    assert {name for name in environments() if name.startswith("benchmarks")} == set(EXTRAS)


@pytest.mark.parametrize("environment", EXTRAS)
def test_environment_has_extras_of_its_name_and_their_index(environment: str) -> None:
    settings = "\n".join(lines_of(TOX["testenv"]["set_env"], environment))

    assert set(lines_of(TOX["testenv"]["extras"], environment)) == EXTRAS[environment] | {"server", "models"}
    assert ("download.pytorch.org/whl/cu126" in settings) == ("cuda12" in environment)


@pytest.mark.parametrize(
    "variable",
    [
        *("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH"),
        *("NVIDIA_TF32_OVERRIDE", "TRITONPROOF_TRITON", "TRITONPROOF_SERVER_ENV", "TRT_VERSION"),
        *("DOCKER_HOST", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"),
    ],
)
@pytest.mark.parametrize("section", ["testenv", "testenv:benchmarks", "testenv:doctor"])
def test_driver_and_docker_variables_pass_through_tox(section: str, variable: str) -> None:
    """tox hides all others: without these a rootless Docker would not answer, and the GPU could change."""
    (name,) = (heading for heading in TOX.sections() if heading.partition("{")[0] == section)
    patterns = TOX[name].get("pass_env", "{[testenv]pass_env}").split()
    if "{[testenv]pass_env}" in patterns:
        patterns += TOX["testenv"]["pass_env"].split()

    assert any(fnmatchcase(variable, pattern) for pattern in patterns)


@pytest.mark.parametrize("environment", ["tests", "campaign"])
def test_test_environments_name_no_folder_themselves(environment: str) -> None:
    """`tox run -e tests -- tests/doctor` extends the command; pytest would also run a folder in it."""
    (command,) = (
        line for line in TOX[f"testenv:{environment}"]["commands"].splitlines() if "-m pytest" in line
    )

    assert not [word for word in command.split() if word.startswith("tests")]


def test_proof_environment_needs_no_framework() -> None:
    project = project_file()["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["server"]]

    assert lines_of(TOX["testenv:prove"]["extras"], "prove") == ["server"]
    assert not [name for name in requirements if re.match("torch|tensorflow|onnx|transformers", name)]
