"""What a repository's files say of its models, before any server is asked."""

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


def test_a_folder_that_is_no_repository_is_refused_with_the_cure(tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    (tmp_path / "empty").mkdir()

    for folder, fix in (("nowhere", "folder"), ("empty", "version folders"), ("doubler", "-k doubler")):
        with pytest.raises(InputError, match=fix):
            models_in(tmp_path / folder, "--repository")


def test_a_name_that_no_record_can_have_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "a model", code("values"), config())

    with pytest.raises(InputError, match="'a model'"):
        models_in(tmp_path, "--repository")


def test_a_damaged_configuration_is_the_fault_of_its_own_model(tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path, "torn", code("values"), config() + "input [ {")

    found = found_in(tmp_path)

    assert not found["doubler"].problem
    assert str(tmp_path / "torn" / "config.pbtxt") in found["torn"].problem


def test_a_model_calls_what_its_configuration_its_code_and_its_samples_name(tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path, "caller", CALLING, config())
    write_model(tmp_path, "chain", None, config(more=ENSEMBLE.replace("doubler", "caller")))
    write_model(
        tmp_path,
        "told",
        code("values"),
        config(more='backend: "python" parameters { key: "next" value { string_value: "caller" } }'),
    )
    found = found_in(tmp_path)

    called = {name: called_by(one, found) for name, one in found.items()}

    assert called == {
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


def test_load_points_go_up_to_the_largest_batch(tmp_path: Path) -> None:
    for batch in (0, 4, 64):
        write_model(tmp_path, f"up-to-{batch}", code("values"), config(batch=batch))

    batches = {name: declared(one).matrices["cpu"].batches for name, one in found_in(tmp_path).items()}

    assert {name: (min(sizes), max(sizes)) for name, sizes in batches.items()} == {
        "up-to-0": (1, 1),
        "up-to-4": (1, 4),
        "up-to-64": (1, 64),
    }


def test_a_model_for_gpus_alone_says_so_on_a_cpu(tmp_path: Path) -> None:
    on_gpu = 'backend: "python" instance_group [{ kind: KIND_GPU }]'
    write_model(tmp_path, "on-gpu", code("values"), config(more=on_gpu))
    found = found_in(tmp_path)["on-gpu"]

    assert "needs a GPU" in str(why_not_here(found, "cpu"))
    assert why_not_here(found, "cuda") is None
