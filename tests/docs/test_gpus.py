"""docs/gpus.md agrees with pyproject.toml, tox.ini and the libraries of the packages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.frameworks import tensorrt
from fixtures.host import machine
from fixtures.host.targets import TARGETS
from fixtures.serve import releases
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


def test_every_named_gpu_is_in_the_table() -> None:
    assert sorted(row["GPU"] for row in GPUS) == sorted(gpu.label for gpu in TARGETS if gpu.device == "cuda")


@pytest.mark.parametrize("row", GPUS, ids=lambda row: row["GPU"])
def test_row_matches_libraries_tensorrt_and_containers(
    row: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    major, minor = row["Compute capability"].split(".")
    capability = int(major), int(minor)
    for environment, extra in EXTRAS.items():
        lack = {
            distribution
            for distribution in ("onnxruntime-gpu", "torch")
            for facts in admitted(extra, distribution).values()
            if not code_of(facts).runs_on(capability)
        }
        assert row[environment].startswith("no" if lack else "yes"), lack
    for version in ("10.16.1.11", "11.4.0.106"):
        monkeypatch.setattr(machine, "version_of", {"tensorrt-cu12": version}.get)
        assert (tensorrt.missing(capability) is not None) == (row["TensorRT"] == "before 10.5")
    supported = [one.name for one in releases.RELEASES if not releases.why_unsupported(one.name, capability)]
    assert row["Container of Triton"].startswith(supported[0])
    assert (len(supported) == 1) == row["Container of Triton"].endswith("the last")


def test_environments_match_tox_and_extras() -> None:
    listed = {row["Environment of tox"].strip("`"): row for row in rows("Environment of tox")}

    assert set(listed) == {env for env in environments() if env.startswith("benchmarks-gpu")}
    for name, row in listed.items():
        extra = EXTRAS[name.removesuffix("-trt")]
        cuda, extra_of_tensorrt = SETS[extra]
        assert row["CUDA"] == str(cuda)
        assert requirements(extra_of_tensorrt), "the extra is there"
        if name.endswith("-trt"):
            continue
        match = re.search(r"ONNX Runtime (\d\.\d+)(?: to (\d\.\d+))?", row["Brings"])
        assert match is not None
        versions = sorted(tuple(map(int, text.split(".")[:2])) for text in admitted(extra, "onnxruntime-gpu"))
        first, last = (".".join(map(str, version)) for version in (versions[0], versions[-1]))
        assert (match[1], match[2] or match[1]) == (first, last)
