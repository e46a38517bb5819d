"""The models of a repository, read from its files."""

from pathlib import Path

import pytest
from google.protobuf.text_format import Parse
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.user_models.repositories import CALLING, ENSEMBLE, code, config, write_model
from tritonproof.base.errors import InputError
from tritonproof.spec import Tensor
from tritonproof.user_models.model_from_config import as_model, gpus_used, why_not_here, with_config
from tritonproof.user_models.model_repository import RepositoryEntry, called_entries, entries_in


def found_in(root: Path) -> dict[str, RepositoryEntry]:
    return {entry.name: entry for entry in entries_in(root, "--repository")}


def test_folder_with_configuration_or_version_is_a_model(tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path, "bare", code("values"), None)
    write_model(tmp_path, ".git", code("values"), None)
    (tmp_path / "notes").mkdir()
    assert list(found_in(tmp_path)) == ["bare", "doubler"]


@pytest.mark.parametrize(("file", "backend"), [("model.onnx", "onnxruntime"), ("model.plan", "tensorrt")])
def test_backend_without_configuration_follows_file_name(tmp_path: Path, file: str, backend: str) -> None:
    (write_model(tmp_path, "bare", None, None) / "1" / file).touch()
    assert found_in(tmp_path)["bare"].backend == backend


@pytest.mark.parametrize("name", ["nowhere", "empty", "doubler", "with-a-bad-name"])
def test_non_repository_is_refused(name: str, tmp_path: Path) -> None:
    write_model(tmp_path, "doubler", code("2 * values"), config())
    write_model(tmp_path / "with-a-bad-name", "a model", code("values"), config())
    (tmp_path / "empty").mkdir()
    where = str(tmp_path / name / "a model") if name.startswith("with") else "--repository"
    with pytest.raises(InputError, check=lambda error: error.where == where and bool(error.fix)):
        entries_in(tmp_path / name, "--repository")


def test_called_models_come_from_configuration_and_code(tmp_path: Path) -> None:
    parameter = 'backend: "python" parameters { key: "next" value { string_value: "caller" } }'
    write_model(tmp_path, "doubler", code("2 * values"), config())
    version = write_model(tmp_path, "caller", CALLING, config()) / "1"
    version.symlink_to(version.rename(tmp_path / "behind-a-link"))
    write_model(tmp_path, "chain", None, config(more=ENSEMBLE.replace("doubler", "caller")))
    write_model(tmp_path, "told", code("values"), config(more=parameter))
    entries = found_in(tmp_path)
    assert {
        name: [other.name for other in called_entries(entry, entries)] for name, entry in entries.items()
    } == {"caller": ["doubler"], "chain": ["doubler", "caller"], "doubler": [], "told": ["doubler", "caller"]}


def test_configuration_describes_requests(tmp_path: Path) -> None:
    optional = config("STRING", "-1, 2", batch=0).replace("'IN', ", "'IN', optional: true, ")
    write_model(tmp_path, "texts", code("values"), optional)
    model = as_model(found_in(tmp_path)["texts"])
    assert model.inputs == (Tensor("IN", "BYTES", (-1, 2), optional=True),)
    assert not model.batched


def test_ensemble_exchanges_as_the_models_that_it_calls() -> None:
    called = RepositoryEntry("doubler", None, Parse("sequence_batching {}", ModelConfig()))
    chain = Parse(ENSEMBLE, ModelConfig())
    model = as_model(RepositoryEntry("chain", None, chain))
    assert (model.is_ensemble, model.exchange) == (True, "single")
    assert with_config(model, chain, [called]).exchange == "sequence"
    outer = Parse(ENSEMBLE.replace("doubler", "chain"), ModelConfig())
    assert with_config(model, outer, [called, RepositoryEntry("chain", None, chain)]).exchange == "sequence"


@pytest.mark.parametrize(("batch", "largest"), [(0, 1), (4, 4), (64, 64), (2**31 - 1, 4096)])
def test_load_points_reach_largest_batch(batch: int, largest: int, tmp_path: Path) -> None:
    write_model(tmp_path, "mine", code("values"), config(batch=batch))
    batches = as_model(found_in(tmp_path)["mine"]).profiles["cpu"].batches
    assert (min(batches), max(batches)) == (1, largest)


def test_gpu_model_is_not_for_a_cpu(tmp_path: Path) -> None:
    on_gpu = 'backend: "python" instance_group [{ kind: KIND_GPU }]'
    write_model(tmp_path, "on-gpu", code("values"), config(more=on_gpu))
    entry = found_in(tmp_path)["on-gpu"]
    assert why_not_here(entry, "cpu")
    assert why_not_here(entry, "cuda") is None


@pytest.mark.parametrize(
    ("groups", "used"),
    [
        (["", "{ kind: KIND_GPU, gpus: [0] }"], 1),
        (["{ kind: KIND_GPU, gpus: [0, 1] }", "{ kind: KIND_CPU }, { kind: KIND_GPU, gpus: [2, 0] }"], 3),
        (["{ kind: KIND_CPU }"], 0),
        (["{ kind: KIND_MODEL }, { kind: KIND_CPU }"], None),
        ([""], None),
    ],
)
def test_instances_of_all_called_models_say_which_gpus_are_used(groups: list[str], used: int | None) -> None:
    assert gpus_used(Parse(f"instance_group [{text}]", ModelConfig()) for text in groups) == used
