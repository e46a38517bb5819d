"""perf_analyzer's shared memory has the names of the model's tensors: what has them already is looked at before a pass."""

import dataclasses
import mmap
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.errors import ProofError
from fixtures.host import guard, segments
from fixtures.host.segments import MEMORY
from fixtures.measure import perf_analyzer, shared_memory
from fixtures.measure.job import Job
from fixtures.measure.load_data import input_data
from fixtures.spec import LoadPoint, Model, Tensor
from tests import toy
from tests.helpers import theirs
from tests.measure.generator import Generator, server_of

USING = """\
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def model() -> Model:
    """A model whose tensors nobody else's are called like."""
    name = f"test{uuid.uuid4().hex}"
    return toy.model(
        inputs=(Tensor(f"{name}/IN", "FP32", (4,)),), outputs=(Tensor(f"{name}_OUT", "FP32", (4,)),)
    )


@pytest.fixture
def left(model: Model) -> Iterator[list[Path]]:
    """What a killed perf_analyzer would have left of the model's shared memory."""
    names = (model.inputs[0].name.replace("/", "") + "_0_12", model.outputs[0].name)
    paths = [MEMORY / name for name in names]
    for path in paths:
        path.write_bytes(b"\0" * mmap.PAGESIZE)
    yield paths
    for path in paths:
        path.unlink(missing_ok=True)


def test_what_nobody_uses_is_removed(model: Model, left: list[Path], tmp_path: Path) -> None:
    shared_memory.remove_stale_regions(model, server_of(tmp_path))

    assert not any(path.exists() for path in left)


def test_another_load_generators_memory_stays_and_it_is_named(
    model: Model, left: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server would die if this run's load generator made it smaller."""
    size = left[1].stat().st_size
    with subprocess.Popen(
        [sys.executable, "-c", USING, str(left[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mapped\n"
        monkeypatch.setattr(guard, "descendants", list)  # as if this run had not started it
        with pytest.raises(ProofError) as caught:
            shared_memory.remove_stale_regions(model, server_of(tmp_path))
        other.communicate()

    assert f"process {other.pid} of" in str(caught.value)
    assert str(left[1]) in str(caught.value)
    assert left[1].stat().st_size == size


def test_another_users_memory_is_named(model: Model, left: list[Path], tmp_path: Path) -> None:
    theirs(left[1])

    with pytest.raises(ProofError, match=rf"another load generator[^$]*{left[1]} of user 12345"):
        shared_memory.remove_stale_regions(model, server_of(tmp_path))
    assert left[1].exists()


def test_names_that_only_begin_like_a_tensor_are_anothers() -> None:
    model = toy.model(inputs=(Tensor("input", "FP32", (4,)),), outputs=(Tensor("a[0]\\b/c", "FP32", (4,)),))

    def is_ours(name: str) -> bool:
        return any(re.fullmatch(one, name) for one in shared_memory.region_names(model))

    assert [is_ours(name) for name in ("input_0_0", "input_3_125", "a[0]bc")] == [True] * 3
    assert [
        is_ours(name) for name in ("input", "input-cache", "input_0", "input_0_x", "a0bc", "a[0]bc_1")
    ] == [False] * 6


def test_a_pass_does_not_begin_beside_another_users(tmp_path: Path, generator: Generator) -> None:
    other = segments.MEMORY / toy.OUTPUT
    other.touch()
    theirs(other)
    model, point = toy.model(), LoadPoint("online", 1, 4)

    with input_data(model, toy.samples(), None) as data:
        job = Job(server_of(tmp_path), "toy", model, point, "system", data)
        with pytest.raises(ProofError, match="another load generator"):
            perf_analyzer.take(job, 0.12)
        perf_analyzer.take(dataclasses.replace(job, shared_memory="none"), 0.12)

    assert len(generator.calls) == 1
