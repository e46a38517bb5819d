"""What is written and read again is equal, whatever it holds: texts in any script, numbers to their last digit."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from msgspec import structs

from fixtures import thresholds
from fixtures.data.squad import squad_v1
from fixtures.frameworks import pytorch
from fixtures.gates import recorded
from fixtures.gates.recorded import RecordedAnswers
from fixtures.given.labels import read_labels
from fixtures.given.samples import read_samples
from fixtures.measure.perf_analyzer_files import read_profile
from fixtures.prove.sameness import Closeness
from fixtures.spec import Tensor
from reports.record import files, per_sample
from reports.record.per_sample import Part, Sample, SampleScores
from tests import samples, toy
from tests.fuzz.profiles import tried
from tests.options import parsed, settings
from tests.record.test_record import complete

TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=12)
FLOATS = st.floats(1e-3, 1e6)
SCORES = st.floats(0, 1)
ARRAYS = st.builds(
    lambda kind, shape, seed: np.asarray(np.random.default_rng(seed).integers(0, 100, shape)).astype(kind),
    st.sampled_from(("float16", "float32", "float64", "int8", "int64", "uint8")),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(0, 2**32),
)


def test_a_record_comes_back_with_its_texts_and_numbers(tmp_path: Path) -> None:
    def check(value: tuple[str, str, dict[str, str], float, list[str]]) -> None:
        weights, cpu, versions, number, ids = value
        whole = complete()
        (lost,) = samples.accuracy().disagreements
        accuracy = samples.accuracy(disagreements=(structs.replace(lost, samples=tuple(ids)),))
        record = structs.replace(
            whole,
            machine=structs.replace(whole.machine, cpu=cpu, versions=versions),
            build=structs.replace(whole.build, weights=weights, build_time_s=number, size_mib=number / 3),
            accuracy=accuracy,
        )
        files.write(record, tmp_path / "case.json")
        assert files.read(tmp_path / "case.json") == record

    tried(
        check,
        st.tuples(
            TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), FLOATS, st.lists(TEXTS, max_size=3)
        ),
    )


def test_scores_of_samples_come_back(tmp_path: Path) -> None:
    def check(value: tuple[list[tuple[str, float, float, float]], str]) -> None:
        rows, text = value
        columns = ([row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows])
        stages = {stage: tuple(one) for stage, one in zip(per_sample.STAGES, columns, strict=True)}
        ids = tuple(row[0] for row in rows)
        worst = (Sample(ids[0], text, (Part("text", text, text),)),)
        scores = SampleScores(complete().case, "0f3c", ids, {"top-1": stages}, worst)
        per_sample.write(scores, tmp_path / "case.samples.json")
        assert per_sample.read(tmp_path / "case.samples.json") == scores

    tried(check, st.tuples(st.lists(st.tuples(TEXTS, SCORES, SCORES, SCORES), min_size=1, max_size=5), TEXTS))


def test_recorded_answers_come_back(tmp_path: Path) -> None:
    def check(rows: dict[str, np.ndarray]) -> None:
        digests = dict.fromkeys(rows, "0" * 16)
        held = {name: {"y": values} for name, values in rows.items()}
        found = RecordedAnswers("toy", "cpu-toy", "2.51.0", "0" * 32, Closeness(0.1, 0.2, 1.0), digests, held)
        (tmp_path / "toy.npz").write_bytes(recorded.encoded(found))
        again = recorded.read(tmp_path / "toy.npz")
        assert (again.near, again.digests) == (found.near, found.digests)
        for name, values in rows.items():
            np.testing.assert_array_equal(again.rows[name]["y"], values, strict=True)

    tried(check, st.dictionaries(TEXTS, ARRAYS, max_size=3))


@pytest.mark.parametrize("name", ["model.pt", "model.pth.tar", "model.safetensors"])
def test_a_checkpoint_comes_back(name: str, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    path = tmp_path / name

    def check(arrays: dict[str, np.ndarray]) -> None:
        state = {key: torch.from_numpy(np.ascontiguousarray(values)) for key, values in arrays.items()}
        if path.suffix == ".safetensors":
            save_file(state, path)
        else:
            torch.save(state, path, _use_new_zipfile_serialization=path.suffix == ".pt")
        again = pytorch.read_checkpoint(path)
        assert again.keys() == state.keys()
        assert all(
            torch.equal(again[key], state[key]) and again[key].dtype == state[key].dtype for key in state
        )

    tried(check, st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=3))


@pytest.mark.parametrize("ending", ["csv", "json", "npz", "npy"])
def test_labels_come_back(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"labels.{ending}"

    def check(labels: dict[str, float]) -> None:
        if ending == "csv":
            path.write_text("".join(f"{name},{value!r}\n" for name, value in labels.items()))
        elif ending == "json":
            path.write_text(json.dumps(labels))
        elif ending == "npz":
            np.savez(path, **{name: np.array(value) for name, value in labels.items()})
        else:
            np.save(path, np.array(list(labels.values())))
        assert read_labels(path, list(labels), list(labels)).tolist() == list(labels.values())

    # NumPy's savez takes the word for its own argument.
    names = NAMES.filter(lambda name: name != "file")
    tried(check, st.dictionaries(names, FLOATS | st.integers(0, 10**6).map(float), min_size=1, max_size=5))


def test_samples_come_back_from_numpys_files_and_from_requests(tmp_path: Path) -> None:
    def check(rows: list[list[float]]) -> None:
        folders = [tmp_path / "numpy", tmp_path / "requests"]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        np.save(folders[0] / "a.npy", np.array(rows, np.float32))
        (folders[1] / "a.json").write_text(json.dumps({"data": [{"x": row} for row in rows]}))
        for folder in folders:
            found = read_samples(folder, (Tensor("x", "FP32", (3,)),))
            assert len(found) == len(rows)
            np.testing.assert_array_equal(found.load(range(len(rows)))["x"], np.array(rows, np.float32))

    tried(
        check,
        st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=4),
    )


def test_requests_of_a_profile_come_back(tmp_path: Path) -> None:
    def check(value: list[tuple[int, int]]) -> None:
        requests = [{"timestamp": start, "response_timestamps": [start + taken]} for start, taken in value]
        content = {"experiments": [{"requests": requests, "window_boundaries": [0, 10**19 // 2]}]}
        (tmp_path / "profile.json").write_text(json.dumps(content))
        found = read_profile(tmp_path / "profile.json", 4)
        assert sorted(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == sorted(
            (start, start + taken) for start, taken in value
        )

    tried(
        check, st.lists(st.tuples(st.integers(0, 2 * 10**18), st.integers(1, 10**12)), min_size=1, max_size=6)
    )


def test_questions_come_back_as_they_are_written(tmp_path: Path) -> None:
    def check(value: list[tuple[str, str]]) -> None:
        questions: list[Any] = [
            {"id": str(place), "question": question, "answers": [{"text": answer, "answer_start": 0}]}
            for place, (question, answer) in enumerate(value)
        ]
        content = {"data": [{"paragraphs": [{"context": "a b", "qas": questions}]}]}
        (tmp_path / "dev.json").write_text(json.dumps(content))
        assert squad_v1.read(tmp_path / "dev.json") == content["data"]

    tried(check, st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))


def test_thresholds_come_back(tmp_path: Path) -> None:
    def check(value: tuple[float, float, str]) -> None:
        limit, percent, source = value
        text = f'[[cases]]\nmatch = "*"\nlimits.top-1 = {limit!r}\nallowed_slowdown_percent = {percent!r}\nsource = {json.dumps(source)}\n'
        (tmp_path / "asked.toml").write_text(text, "utf-8")
        found = thresholds.read("--thresholds", str(tmp_path / "asked.toml"))
        assert found.limits(toy.case())["top-1"].value == limit
        assert found.limits(toy.case())["top-1"].source.startswith(source)
        assert found.allowed_slowdown(toy.case(), 0.5) == pytest.approx(percent / 100)

    tried(check, st.tuples(st.floats(0.01, 1), st.floats(0.01, 99), NAMES))


def test_lists_and_parts_of_options_come_back() -> None:
    def check(value: tuple[set[int], set[float], int, int]) -> None:
        sizes, rates, number, more = value
        found = settings(
            batches=",".join(map(str, sizes)),
            concurrencies=" , ".join(map(str, sorted(sizes, reverse=True))),
            request_rates=",".join(map(repr, rates)),
            shard=f"{number}/{number + more}",
        )
        assert found.batches == found.concurrencies == tuple(sorted(sizes))
        assert found.request_rates == tuple(sorted(rates))
        assert found.shard is not None
        assert dataclasses.astuple(found.shard) == (number, number + more)

    tried(
        check,
        st.tuples(
            st.sets(st.integers(1, 256), min_size=1, max_size=5),
            st.sets(st.floats(0.01, 1e5), min_size=1, max_size=4),
            st.integers(1, 500),
            st.integers(0, 500),
        ),
    )


def test_settings_come_back_from_the_options_that_another_checkout_is_given() -> None:
    def check(changes: dict[str, Any]) -> None:
        texts = [
            f"{key}={'+'.join(map(str, value)) if isinstance(value, list) else str(value).lower()}"
            for key, value in changes.items()
        ]
        found = settings(**({"deployment": ",".join(texts)} if changes else {}))
        assert parsed(found.command_line("builds", "resnet50")) == found
        assert dict(found.deployment) == {
            key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()
        }

    size = st.integers(1, 1024)
    tried(
        check,
        st.fixed_dictionaries(
            {},
            optional={
                "max_batch_size": size,
                "instances": st.integers(1, 16),
                "preferred_batch_sizes": st.lists(size, min_size=1, max_size=3),
                "max_queue_delay_us": st.integers(0, 10**6),
                "cuda_graphs": st.booleans(),
                "warmup": st.booleans(),
            },
        ),
    )
