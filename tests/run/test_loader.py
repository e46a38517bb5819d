"""How a case is loaded again, and what its run then knows of it."""

from unittest.mock import Mock

import pytest

from tests import toy
from tests.run.conftest import RunOf
from tests.run.stand_in_case import StandInServer, prepare, prepare_repository_case
from tritonproof.base.errors import ProofError
from tritonproof.serve.server import LoadState


def test_case_that_a_reload_left_unloaded_is_loaded_again(run_of: RunOf) -> None:
    """One of a repository is otherwise loaded before its run asks for it."""
    loading = Mock(side_effect=[ProofError("no memory"), None])
    loader = run_of(prepare_repository_case(StandInServer(on_loading=loading))).loader
    with pytest.raises(ProofError, match="no memory"):
        loader.reload()
    for _ in range(2):
        loader.ensure_loaded("offline")
    assert loading.call_count == 2


def test_reloaded_case_is_cold(run_of: RunOf) -> None:
    loader = run_of(prepare()).loader
    loader.loaded, loader.was_under_load = LoadState("offline", toy.DEPLOYMENT, "onnx", {}), True
    loader.reload()
    assert (loader.loaded, loader.was_under_load) == (LoadState("offline", toy.DEPLOYMENT, "python"), False)
