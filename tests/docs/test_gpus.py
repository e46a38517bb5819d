"""docs/gpus.md agrees with pyproject.toml, tox.ini and the libraries of the packages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.frameworks import tensorrt
from fixtures.host import machine
from fixtures.host.targets import TARGETS
from fixtures.serve import server_spec
from tests.docs.test_docs import environments
from tests.frameworks.gpu_packages import SETS, admitted, code_of, requirements

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gpus.md").read_text()
EXTRAS = {"benchmarks-gpu": "gpu", "benchmarks-gpu-cuda12": "gpu-cuda12"}


def rows(heading: str) -> Iterator[dict[str, str]]:
    """The rows of the table whose first column has this heading, by column."""
    lines = PAGE.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    columns = [cell.strip(" `") for cell in lines[start].strip("|").split("|")]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield dict(zip(columns, (cell.strip() for cell in line.strip("|").split("|")), strict=True))


GPUS = list(rows("GPU"))


def capability_of(row: dict[str, str]) -> tuple[int, int]:
    major, minor = row["Compute capability"].split(".")
    return int(major), int(minor)


def test_every_named_gpu_is_in_the_table() -> None:
    assert sorted(row["GPU"] for row in GPUS) == sorted(gpu.label for gpu in TARGETS if gpu.device == "cuda")


@pytest.mark.parametrize("row", GPUS, ids=lambda row: row["GPU"])
def test_gpu_package_sets_match_code_of_libraries(row: dict[str, str]) -> None:
    for environment, extra in EXTRAS.items():
        lack = {
            distribution
            for distribution in ("onnxruntime-gpu", "torch")
            for facts in admitted(extra, distribution).values()
            if not code_of(facts).runs_on(capability_of(row))
        }
        assert row[environment].startswith("no" if lack else "yes"), (row["GPU"], lack)


@pytest.mark.parametrize("row", GPUS, ids=lambda row: row["GPU"])
def test_tensorrt_of_gpu_matches_its_cases(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("10.16.1.11", "11.4.0.106"):
        monkeypatch.setattr(machine, "version_of", {"tensorrt-cu12": version}.get)
        skips = tensorrt.missing(capability_of(row)) is not None
        assert skips == (row["TensorRT"] == "before 10.5")


@pytest.mark.parametrize("row", GPUS, ids=lambda row: row["GPU"])
def test_container_of_gpu_matches_supported_releases(row: dict[str, str]) -> None:
    match = re.match(r"\d\d\.\d\d", row["Container of Triton"])
    assert match is not None
    supported = [
        release.name
        for release in server_spec.RELEASES
        if not server_spec.why_unsupported(release.name, capability_of(row))
    ]
    assert supported[0] == match[0]
    assert (len(supported) == 1) == row["Container of Triton"].endswith("the last")


def test_environments_and_cuda_match_tox_and_extras() -> None:
    listed = {row["Environment of tox"].strip("`"): row for row in rows("Environment of tox")}

    assert set(listed) == {env for env in environments() if env.startswith("benchmarks-gpu")}
    for name, row in listed.items():
        cuda, extra_of_tensorrt = SETS[EXTRAS[name.removesuffix("-trt")]]
        assert row["CUDA"] == str(cuda)
        assert requirements(extra_of_tensorrt), "the extra is there"


def test_environment_contents_match_its_extra() -> None:
    for row in rows("Environment of tox"):
        name = row["Environment of tox"].strip("`")
        if name.endswith("-trt"):
            continue
        match = re.search(r"ONNX Runtime (\d\.\d+)(?: to (\d\.\d+))?", row["Brings"])
        assert match is not None
        versions = sorted(
            {tuple(map(int, version.split(".")[:2])) for version in admitted(EXTRAS[name], "onnxruntime-gpu")}
        )
        first, last = ".".join(map(str, versions[0])), ".".join(map(str, versions[-1]))
        assert (match[1], match[2] or match[1]) == (first, last)
