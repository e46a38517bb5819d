"""Models as they were found, on a real Triton: loaded untouched, asked for what they are, and asked at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.accuracy.compare_answers import Closeness, expect
from fixtures.errors import NotAvailableError, ProofError
from fixtures.measure import perf_analyzer
from fixtures.measure.job import Check, Job, SharedMemory
from fixtures.measure.load_data import input_data
from fixtures.measure.verifying import ask_once, verify
from fixtures.serve.found_models import LoadedModel, load_found, loaded_on
from fixtures.serve.found_samples import ask_each_version, sized
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint, Model
from fixtures.user_models.existing import declared, with_config
from fixtures.user_models.linked import link_repository
from fixtures.user_models.repository import FoundModel, models_in
from tests.user_models.repositories import CALLING, COMPLETING, ENSEMBLE, code, config, contents, write_model


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of sound and of broken models."""
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
    return root


@pytest.fixture(scope="module")
def found(repository: Path) -> dict[str, FoundModel]:
    """The repository's models by their names."""
    return {one.name: one for one in models_in(repository, "--repository")}


@pytest.fixture(scope="module")
def server(found: dict[str, FoundModel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Triton for that repository."""
    linked = link_repository(found.values(), tmp_path_factory.mktemp("linked"))
    log = tmp_path_factory.mktemp("logs") / "log"
    with serve(Choice("embedded"), linked, log, device="cpu", completes=True) as started:
        yield started


def load(server: Server, found: dict[str, FoundModel], name: str) -> tuple[LoadedModel, Model]:
    others = {other: one for other, one in found.items() if other != name}
    loaded = load_found(server, found[name], others)
    return loaded, with_config(declared(found[name]), loaded.config)


@pytest.mark.parametrize("name", ["chain", "caller"])
def test_what_a_model_calls_is_loaded_with_it_and_nothing_is_written(
    server: Server, found: dict[str, FoundModel], repository: Path, name: str
) -> None:
    before = contents(repository)

    loaded, model = load(server, found, name)
    samples = sized(server, model, None).samples
    answer = server.infer(name, model, samples.load([0]))

    assert loaded.called == ("doubler",)
    assert answer["OUT"] == pytest.approx((4 if name == "chain" else 2) * samples.load([0])["IN"])
    assert contents(repository) == before


def test_what_no_file_says_is_asked_of_the_server(server: Server, found: dict[str, FoundModel]) -> None:
    _, model = load(server, found, "completing")

    assert [(one.name, one.dtype, one.shape) for one in (*model.inputs, *model.outputs)] == [
        ("IN", "FP32", (3,)),
        ("OUT", "FP32", (3,)),
    ]
    assert model.matrices["cpu"].deployment.max_batch_size == 2


def test_texts_of_any_length_without_batches_are_made_up_and_answered(
    server: Server, found: dict[str, FoundModel]
) -> None:
    _, model = load(server, found, "texts")

    asked = sized(server, model, None)
    rows = asked.samples.load([0])
    answer = server.infer("texts", model, rows)

    assert "variable dimensions 16 long" in asked.note
    assert answer["OUT"].tolist() == rows["IN"][:, ::-1].tolist()
    assert len({str(asked.samples.load([number])["IN"]) for number in range(4)}) == 4


@pytest.mark.parametrize("shared_memory", ["system", "none"])
def test_the_load_generator_sends_texts_and_variable_lengths(
    server: Server, found: dict[str, FoundModel], shared_memory: SharedMemory
) -> None:
    _, model = load(server, found, "texts")
    samples = sized(server, model, None).samples

    with input_data(model, samples, server.scratch) as data:
        point = LoadPoint("offline", 1, 1)
        check = Check(expect(data.ids, {"OUT": data.rows["IN"][:, ::-1]}), Closeness(1e-4, 1e-4, 1.0))
        job = Job(server, "texts", model, point, shared_memory, data, 0.01, check)
        run = perf_analyzer.take(job, 0.06)
        # Each once, however long that takes.
        answers = verify(check, ask_once(job, data.requests(point.batch)), 1.0)

    assert len(run.timeline.starts) > 0
    assert (answers.wrong, answers.first_wrong) == (0, None)
    assert answers.verified == len(data.ids) > 1


def test_a_version_that_does_not_load_is_named_with_the_reason(
    server: Server, found: dict[str, FoundModel]
) -> None:
    with pytest.raises(ProofError, match=r"(?s)version 2.*planted"):
        load(server, found, "broken")


def test_a_missing_backend_is_no_fault_of_the_model(server: Server, found: dict[str, FoundModel]) -> None:
    with pytest.raises(NotAvailableError, match="elsewhere needs Triton's unheard_of backend"):
        load(server, found, "elsewhere")


@pytest.mark.parametrize(("name", "kind"), [("choosy", NotAvailableError), ("faulty", ProofError)])
def test_a_model_that_takes_nothing_made_up_asks_for_samples_where_its_type_leaves_it_open(
    server: Server, found: dict[str, FoundModel], name: str, kind: type[ProofError]
) -> None:
    _, model = load(server, found, name)

    with pytest.raises(ProofError) as refused:
        sized(server, model, None)

    assert type(refused.value) is kind
    assert (f"--samples {name}=DIR" in str(refused.value)) == (kind is NotAvailableError)


def test_every_version_that_is_served_has_to_answer(server: Server, found: dict[str, FoundModel]) -> None:
    _, model = load(server, found, "doubler")
    samples = sized(server, model, None).samples

    ask_each_version(server, model, ["1", "1"], samples)
    with pytest.raises(ProofError, match="version 7 of doubler"):
        ask_each_version(server, model, ["7", "1"], samples)


def test_a_server_says_which_models_it_has_loaded(server: Server, found: dict[str, FoundModel]) -> None:
    load(server, found, "doubler")

    loaded = {one.name: one for one in loaded_on(server)}

    assert "elsewhere" not in loaded
    assert declared(loaded["doubler"]).inputs[0].shape == (4,)
