"""Planted faults are found by the tests that are there for them, and honest models pass."""

from collections.abc import Mapping

import pytest

from tests.corpus import planted, verdicts
from tests.corpus.planted import CONTROLS, FAULTS, Planted
from tests.corpus.verdicts import Found

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """What one run finds of all models that are asked for."""
    folder = tmp_path_factory.mktemp("planted")
    names = verdicts.selected(request)
    chosen = [one for one in (*FAULTS, *CONTROLS) if one.name in names]
    options = []
    for one in chosen:
        planted.write(folder / "models", one)
        if one.samples:
            where = planted.write_samples(folder / one.samples, one.samples)
            options += ["--samples", f"{one.name}={where}"]
    return verdicts.run(folder, ["--repository", str(folder / "models"), "-m", "not load", *options]).models


@pytest.mark.parametrize("model", FAULTS, ids=[one.name for one in FAULTS])
def test_a_planted_fault_is_found(model: Planted, found: Mapping[str, Found]) -> None:
    found[model.name].hold_to(model.expected)


@pytest.mark.parametrize("model", CONTROLS, ids=[one.name for one in CONTROLS])
def test_an_honest_model_passes(model: Planted, found: Mapping[str, Found]) -> None:
    found[model.name].hold_to(model.expected)
