"""One Triton for all tests of this folder that only need a working server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import toy
from tritonproof.build.builds import CaseBuild
from tritonproof.serve.launch import serve
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model repository of the shared server."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def doubling(models: Path) -> CaseBuild:
    """A model of that repository that doubles its input."""
    return toy.make_build(models, "doubling", toy.DOUBLING)


@pytest.fixture(scope="session")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The embedded Triton for that repository."""
    log = tmp_path_factory.mktemp("logs") / "server.log"
    with serve(ServerSpec("embedded"), ServerSetup(models, log, "cpu")) as started:
        yield started
