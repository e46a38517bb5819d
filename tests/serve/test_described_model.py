"""A real Triton loads models of existing repositories unchanged, or refuses them with a reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests import toy
from tests.user_models.repositories import CALLING, COMPLETING, ENSEMBLE, code, config, contents, write_model
from tritonproof.base.errors import NotAvailableError, ProofError
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import ServedModel, SharedMemory
from tritonproof.host import locks
from tritonproof.measure import perf_analyzer
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.verifying import with_expected
from tritonproof.record.speed import LoadPoint
from tritonproof.run.repository_case import as_build, send_first_request
from tritonproof.serve.connection import grpc_client
from tritonproof.serve.described_model import DescribedModel, load_and_describe
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Model, Tensor
from tritonproof.user_models.model_from_config import as_model, with_config
from tritonproof.user_models.model_repository import RepositoryEntry, entries_in, link_repository

Found = dict[str, RepositoryEntry]
"""The entries of a repository by their names."""
WITHOUT_DIMS = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: 4 }
output { name: "OUT" data_type: TYPE_FP32 }
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of sound and broken models."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root, "doubler", code("2 * values"), config())
    write_model(root, "caller", CALLING, config())
    write_model(root, "chain", None, config(more=ENSEMBLE))
    write_model(root, "completing", COMPLETING, None)
    write_model(root, "texts", code("values[::-1]"), config("STRING", "-1", batch=0))
    write_model(root, "choosy", code("{}[int(values[0, 0])]"), config("INT32"))
    write_model(root, "faulty", code("values[:, 9]"), config())
    broken = write_model(root, "broken", code("values"), config(), versions=("1", "2"))
    (broken / "config.pbtxt").write_text(config() + "version_policy { all {} }")
    (broken / "2" / "model.py").write_text("raise RuntimeError('planted')")
    write_model(root, "elsewhere", None, config(more='backend: "unheard_of"'))
    write_model(root, "shapeless", code("values"), WITHOUT_DIMS)
    write_model(root, "renamed", code("values"), f'name: "former"\n{config()}')
    on_gpu = 'backend: "python" instance_group [{ kind: KIND_GPU }]'
    write_model(root, "gpu-doubler", code("2 * values"), config(more=on_gpu))
    write_model(root, "gpu-chain", None, config(more=ENSEMBLE.replace("doubler", "gpu-doubler")))
    write_model(root, "empty", None, config())
    return root


@pytest.fixture(scope="module")
def found(repository: Path) -> Found:
    return {entry.name: entry for entry in entries_in(repository, "--repository")}


@pytest.fixture(scope="module")
def server(found: Found, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Triton for that repository."""
    linked = link_repository(found.values(), tmp_path_factory.mktemp("linked"))
    log = tmp_path_factory.mktemp("logs") / "log"
    with serve(ServerSpec("embedded"), ServerSetup(linked, log, "cpu", auto_complete=True)) as started:
        yield started


def load(server: Server, found: Found, name: str) -> tuple[DescribedModel, Model]:
    described = load_and_describe(server, found[name], found)
    return described, with_config(as_model(found[name]), described.config)


@pytest.mark.parametrize("name", ["chain", "caller"])
def test_called_models_are_loaded_and_nothing_is_written(
    server: Server, found: Found, repository: Path, name: str
) -> None:
    before = contents(repository)
    described, model = load(server, found, name)
    samples = send_first_request(server, model, None).samples
    answer = server.infer(name, model, samples.read([0]))
    assert described.called_names == ("doubler",)
    assert answer["OUT"] == pytest.approx((4 if name == "chain" else 2) * samples.read([0])["IN"])
    assert contents(repository) == before


def test_model_without_instances_on_all_gpus_is_unavailable(server: Server, found: Found) -> None:
    with pytest.raises(NotAvailableError, match="on 0 GPUs"):
        load_and_describe(server, found["chain"], found, gpus=2)


def test_missing_configuration_comes_from_server(server: Server, found: Found) -> None:
    _, model = load(server, found, "completing")
    assert model.inputs == (Tensor("IN", "FP32", (3,)),)
    assert model.outputs == (Tensor("OUT", "FP32", (3,)),)
    assert model.profiles["cpu"].deployment.max_batch_size == 2


@pytest.mark.parametrize("shared_memory", ["system", "none"])
def test_load_generator_sends_strings_and_variable_lengths(
    server: Server, found: Found, shared_memory: SharedMemory
) -> None:
    _, model = load(server, found, "texts")
    samples = send_first_request(server, model, None).samples
    with input_data(model, samples, server.scratch) as data:
        expected = toy.expected_answers(data.ids, {"OUT": data.arrays["IN"][:, ::-1]})
        served = ServedModel(server, "texts", model, data)
        job = with_expected(LoadJob(served, LoadPoint("offline", 1, 1), shared_memory, 0.01), expected)
        # Other tests' load generators use the same names in shared memory.
        with locks.hold_machine(exclusive=True):
            run = perf_analyzer.run_pass(job, 0.06)
        # Ask for each sample once, however long that takes.
        answers = expected.compare(served.ask(data.requests(1), shared_memory=shared_memory)).result
    assert len(run.all_latencies_ms) > 0
    assert (answers.wrong, answers.first_wrong) == (0, None)
    assert answers.count == len(data.ids) > 1


@pytest.mark.parametrize(
    ("name", "error", "named"),
    [("broken", ProofError, "planted"), ("elsewhere", NotAvailableError, "unheard_of")],
)
def test_model_that_does_not_load_is_named_with_reason(
    server: Server, found: Found, name: str, error: type[ProofError], named: str
) -> None:
    with pytest.raises(error, match=named) as refused:
        load(server, found, name)
    assert type(refused.value) is error


def test_backend_that_another_model_lacked_excuses_no_failure(tmp_path: Path) -> None:
    """Its line still stands at the end of the log."""
    log = tmp_path / "log"
    log.write_text("unable to find backend library for backend 'unheard_of'\n")
    with grpc_client("127.0.0.1:1") as client, pytest.raises(ProofError, match="unheard_of") as refused:
        load_folder(Server(ServerSpec("local"), "127.0.0.1:1", "2.51.0", log, client), tmp_path)
    assert type(refused.value) is ProofError


@pytest.mark.parametrize(("name", "kind"), [("choosy", NotAvailableError), ("faulty", ProofError)])
def test_rejected_synthetic_inputs_may_ask_for_samples(
    server: Server, found: Found, name: str, kind: type[ProofError]
) -> None:
    _, model = load(server, found, name)
    with pytest.raises(ProofError) as refused:
        send_first_request(server, model, None)
    assert type(refused.value) is kind
    assert (f"--samples {name}=DIR" in str(refused.value)) == (kind is NotAvailableError)


@pytest.mark.parametrize(("name", "reason"), [("shapeless", "dims"), ("renamed", "former")])
def test_first_line_states_reason(server: Server, repository: Path, name: str, reason: str) -> None:
    with pytest.raises(ProofError) as caught:
        load_folder(server, repository / name)
    first_line = caught.value.what.splitlines()[0]
    assert reason in first_line
    assert "failed to poll" not in first_line


def test_unloadable_model_is_not_waited_for(server: Server, found: Found) -> None:
    for name in ("gpu-doubler", "gpu-chain"):
        with pytest.raises(NotAvailableError, match="gpu-doubler"):
            load_and_describe(server, found[name], found)
    with pytest.raises(ProofError, match=r"model\.py"):
        load_and_describe(server, found["empty"], {})
    assert server.is_live()


def test_model_whose_files_change_is_another_build(tmp_path: Path) -> None:
    model, store = write_model(tmp_path, "m", None, None, versions=("1", "2")), tmp_path / "store"
    store.mkdir()
    (weights := model / "1" / "weights.bin").write_bytes(b"weights")
    described = DescribedModel(RepositoryEntry("m", model, None), (), ModelConfig(name="m"), ("1",), 0.0)
    builds = [as_build(toy.case(), described, tmp_path)]
    for change in (
        lambda: weights.touch(),
        lambda: weights.rename(model / "2" / weights.name),
        lambda: (model / "3").symlink_to(store),
        lambda: (store / weights.name).write_bytes(bytes(2**20)),
        lambda: (model / "4").symlink_to(store),
    ):
        change()
        builds.append(as_build(toy.case(), described, tmp_path))
    assert len({build.facts.digest for build in builds[1:]}) == 5
    assert builds[0].facts.digest == builds[1].facts.digest
    assert 1.0 <= builds[-1].facts.size_mib < 1.1
