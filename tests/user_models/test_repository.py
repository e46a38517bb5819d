"""The models of a repository, by their files alone."""

from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.spec import Tensor
from fixtures.user_models.existing import declared, why_not_here
from fixtures.user_models.repository import FoundModel, called_by, models_in
from tests.user_models.repositories import CALLING, ENSEMBLE, code, config, write_model


def found_in(root: Path) -> dict[str, FoundModel]:
    return {one.name: one for one in models_in(root, "--repository")}


def test_every_folder_with_a_configuration_or_a_version_is_a_model(tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path, "bare", code("values"), None)
    write_model(tmp_path, ".git", code("values"), None)
    (tmp_path / "notes").mkdir()

    assert list(found_in(tmp_path)) == ["bare", "doubler"]


@pytest.mark.parametrize(("file", "backend"), [("model.onnx", "onnxruntime"), ("model.plan", "tensorrt")])
def test_the_backend_of_a_model_without_a_configuration_is_that_of_its_file(
    tmp_path: Path, file: str, backend: str
) -> None:
    (write_model(tmp_path, "bare", None, None) / "1" / file).touch()

    assert found_in(tmp_path)["bare"].backend == backend


@pytest.mark.parametrize("name", ["nowhere", "empty", "doubler", "with-a-bad-name"])
def test_a_folder_that_is_no_repository_is_refused(name: str, tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path / "with-a-bad-name", "a model", code("values"), config())
    (tmp_path / "empty").mkdir()

    with pytest.raises(InputError) as raised:
        models_in(tmp_path / name, "--repository")
    assert raised.value.where == (
        str(tmp_path / name / "a model") if name.startswith("with") else "--repository"
    )
    assert raised.value.fix


def test_a_damaged_configuration_is_the_fault_of_its_own_model(tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path, "torn", code("values"), config() + "input [ {")

    found = found_in(tmp_path)

    assert not found["doubler"].problem
    assert str(tmp_path / "torn" / "config.pbtxt") in found["torn"].problem


def test_a_model_calls_what_its_configuration_its_code_and_its_samples_name(tmp_path: Path) -> None:
    parameter = 'backend: "python" parameters { key: "next" value { string_value: "caller" } }'
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path, "caller", CALLING, config())
    write_model(tmp_path, "chain", None, config(more=ENSEMBLE.replace("doubler", "caller")))
    write_model(tmp_path, "told", code("values"), config(more=parameter))
    found = found_in(tmp_path)

    assert {name: called_by(one, found) for name, one in found.items()} == {
        "caller": ["doubler"],
        "chain": ["doubler", "caller"],
        "doubler": [],
        "told": ["doubler", "caller"],
    }
    assert called_by(found["doubler"], found, ["told"]) == ["caller", "told"]


def test_the_configuration_says_what_requests_look_like(tmp_path: Path) -> None:
    optional = config("STRING", "-1, 2", batch=0).replace("'IN', ", "'IN', optional: true, ")
    write_model(tmp_path, "texts", code("values"), optional)

    model = declared(found_in(tmp_path)["texts"])

    assert model.inputs == (Tensor("IN", "BYTES", (-1, 2), optional=True),)
    assert not model.batched


@pytest.mark.parametrize(("batch", "largest"), [(0, 1), (4, 4), (64, 64), (2**31 - 1, 4096)])
def test_load_points_go_up_to_the_largest_batch(batch: int, largest: int, tmp_path: Path) -> None:
    write_model(tmp_path, "mine", code("values"), config(batch=batch))

    batches = declared(found_in(tmp_path)["mine"]).matrices["cpu"].batches

    assert (min(batches), max(batches)) == (1, largest)


def test_a_model_for_gpus_alone_is_not_for_a_cpu(tmp_path: Path) -> None:
    on_gpu = 'backend: "python" instance_group [{ kind: KIND_GPU }]'
    write_model(tmp_path, "on-gpu", code("values"), config(more=on_gpu))
    found = found_in(tmp_path)["on-gpu"]

    assert why_not_here(found, "cpu")
    assert why_not_here(found, "cuda") is None
