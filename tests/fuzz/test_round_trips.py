"""What is written and read again is equal, whatever it holds: texts in any script, numbers to their last digit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fixtures.frameworks import pytorch
from fixtures.spec import Tensor
from fixtures.user_models.labels import read_labels
from fixtures.user_models.samples import read_samples
from reports.record import files
from tests import samples
from tests.fuzz.test_hostile_files import FEW
from tests.record.test_record import complete

TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
# NumPy's savez takes the word `file` for its own argument.
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=12).filter(
    lambda x: x != "file"
)
FLOATS = st.floats(1e-3, 1e6)
ARRAYS = st.builds(
    lambda kind, shape, seed: np.asarray(np.random.default_rng(seed).integers(0, 100, shape)).astype(kind),
    st.sampled_from(("float16", "float32", "float64", "int8", "int64", "uint8")),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(0, 2**32),
)


@FEW
@given(
    weights=TEXTS,
    cpu=TEXTS,
    versions=st.dictionaries(TEXTS, TEXTS, max_size=3),
    number=FLOATS,
    ids=st.lists(TEXTS, max_size=3),
)
def test_a_record_comes_back_with_its_texts_and_numbers(
    weights: str, cpu: str, versions: dict[str, str], number: float, ids: list[str], tmp_path: Path
) -> None:
    whole = complete()
    (lost,) = samples.accuracy().disagreements
    record = structs.replace(
        whole,
        machine=structs.replace(whole.machine, cpu=cpu, versions=versions),
        build=structs.replace(whole.build, weights=weights, build_time_s=number, size_mib=number / 3),
        accuracy=samples.accuracy(disagreements=(structs.replace(lost, samples=tuple(ids)),)),
    )
    files.write(record, tmp_path / "case.json")
    assert files.read(tmp_path / "case.json") == record


@pytest.mark.parametrize("name", ["model.pt", "model.pth.tar", "model.safetensors"])
@FEW
@given(arrays=st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=3))
def test_a_checkpoint_comes_back(name: str, arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / name
    state = {key: torch.from_numpy(np.ascontiguousarray(values)) for key, values in arrays.items()}
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=path.suffix == ".pt")
    again = pytorch.read_checkpoint(path)
    assert again.keys() == state.keys()
    for key, values in state.items():
        torch.testing.assert_close(again[key], values, rtol=0, atol=0)


@pytest.mark.parametrize("ending", ["csv", "json", "npz", "npy"])
@FEW
@given(labels=st.dictionaries(NAMES, FLOATS | st.integers(0, 10**6).map(float), min_size=1, max_size=5))
def test_labels_come_back(ending: str, labels: dict[str, float], tmp_path: Path) -> None:
    path = tmp_path / f"labels.{ending}"
    if ending == "csv":
        path.write_text("".join(f"{name},{value!r}\n" for name, value in labels.items()))
    elif ending == "json":
        path.write_text(json.dumps(labels))
    elif ending == "npz":
        np.savez(path, **{name: np.array(value) for name, value in labels.items()})
    else:
        np.save(path, np.array(list(labels.values())))
    assert read_labels(path, list(labels), list(labels)).tolist() == list(labels.values())


@FEW
@given(
    rows=st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=4)
)
def test_samples_come_back_from_numpys_files_and_from_requests(
    rows: list[list[float]], tmp_path: Path
) -> None:
    folders = [tmp_path / "numpy", tmp_path / "requests"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    np.save(folders[0] / "a.npy", np.array(rows, np.float32))
    (folders[1] / "a.json").write_text(json.dumps({"data": [{"x": row} for row in rows]}))
    for folder in folders:
        found = read_samples(folder, (Tensor("x", "FP32", (3,)),))
        np.testing.assert_array_equal(found.load(range(len(rows)))["x"], np.array(rows, np.float32))
