"""Each planted fault fails its test, and honest models pass."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from reports.text.publishable import publishable
from tests.corpus import planted, verdicts
from tests.corpus.planted import CONTROLS, FAULTS, UNDER_LOAD, Planted
from tests.corpus.verdicts import Found

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """What one run finds of all models that are asked for."""
    names = verdicts.selected(request)
    chosen = [one for one in (*FAULTS, *CONTROLS) if one.name in names]
    return _found(tmp_path_factory.mktemp("planted"), chosen, "-m", "not load")


@pytest.fixture(scope="module")
def found_under_load(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """What a run with load finds."""
    points = ("--batches", "8", "--concurrencies", "8", "--point-budget-s", "1")
    return _found(tmp_path_factory.mktemp("under-load"), UNDER_LOAD, *points)


def _found(folder: Path, chosen: Sequence[Planted], *options: str) -> Mapping[str, Found]:
    words = list(options)
    for one in chosen:
        planted.write(folder / "models", one)
        if one.samples:
            where = planted.write_samples(folder / one.samples, one.samples)
            words += ["--samples", f"{one.name}={where}"]
        if one.tolerance is not None:
            words += ["--tolerance", f"{one.name}={one.tolerance}"]
    return verdicts.run(folder, ["--repository", str(folder / "models"), *words]).models


@pytest.mark.parametrize("model", FAULTS, ids=[one.name for one in FAULTS])
def test_planted_fault_is_found(model: Planted, found: Mapping[str, Found]) -> None:
    found[model.name].hold_to(model.expected)


@pytest.mark.parametrize("model", CONTROLS, ids=[one.name for one in CONTROLS])
def test_honest_model_passes(model: Planted, found: Mapping[str, Found]) -> None:
    found[model.name].hold_to(model.expected)


@pytest.mark.parametrize("model", UNDER_LOAD, ids=[one.name for one in UNDER_LOAD])
def test_speed_is_shown_only_of_right_answers(model: Planted, found_under_load: Mapping[str, Found]) -> None:
    found = found_under_load[model.name]
    found.hold_to(model.expected)
    assert found.record is not None
    assert bool(publishable(found.record).loads) == (model.expected == verdicts.PASSES)
