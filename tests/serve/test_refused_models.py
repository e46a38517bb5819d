"""Models that a real Triton refuses to load as they were found: the first line of the error says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.errors import NotAvailableError, ProofError
from fixtures.serve.found_models import load_found
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.serve.server_spec import Choice
from fixtures.user_models.repository import models_in
from tests.user_models.repositories import ENSEMBLE, code, config, write_model

WITHOUT_DIMS = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: 4 }
output { name: "OUT" data_type: TYPE_FP32 }
"""
ON_GPU = 'backend: "python" instance_group [{ kind: KIND_GPU }]'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of models none of which loads."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root, "shapeless", code("values"), WITHOUT_DIMS)
    write_model(root, "renamed", code("values"), f'name: "former"\n{config()}')
    write_model(root, "doubler", code("2 * values"), config(more=ON_GPU))
    write_model(root, "chain", None, config(more=ENSEMBLE))
    write_model(root, "empty", None, config())
    inside = write_model(root, "inside", None, None)
    (inside / "1" / "config.pbtxt").write_text(config(more=ENSEMBLE))
    return root


@pytest.fixture(scope="module", params=[True, False], ids=["completes", "strict"])
def server(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A Triton that completes configurations, and one that does not."""
    log = tmp_path_factory.mktemp("logs") / "log"
    with serve(Choice("embedded"), repository, log, device="cpu", completes=request.param) as started:
        yield started


@pytest.mark.parametrize(
    ("name", "reason"),
    [("shapeless", "must specify 'dims'"), ("renamed", "for model 'former'"), ("inside", "inside")],
)
def test_the_first_line_says_why(server: Server, repository: Path, name: str, reason: str) -> None:
    with pytest.raises(ProofError) as refused:
        server.load_as_found(repository / name)

    assert reason in refused.value.what.splitlines()[0]
    assert "failed to poll" not in refused.value.what.splitlines()[0]


def test_a_configuration_in_the_folder_of_a_version_is_found_there(server: Server, repository: Path) -> None:
    with pytest.raises(ProofError) as refused:
        server.load_as_found(repository / "inside")

    assert refused.value.fix is not None
    assert str(repository / "inside" / "1") in refused.value.fix


def test_an_ensemble_of_a_model_for_gpus_alone_is_skipped_as_that_model_is(
    server: Server, repository: Path
) -> None:
    found = {one.name: one for one in models_in(repository, "--repository")}

    for name in ("doubler", "chain"):
        others = {other: one for other, one in found.items() if other != name}
        with pytest.raises(NotAvailableError, match="doubler needs a GPU"):
            load_found(server, found[name], others)


def test_a_model_without_its_code_is_not_waited_for(server: Server, repository: Path) -> None:
    found = {one.name: one for one in models_in(repository, "--repository")}

    with pytest.raises(ProofError, match=r"no model\.py"):
        load_found(server, found["empty"], {})
    assert server.is_live()
