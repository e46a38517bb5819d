"""Each planted fault fails its test, and honest models pass."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.corpus import planted, verdicts
from tests.corpus.planted import CONTROLS, FAULTS, UNDER_LOAD, Planted
from tests.corpus.verdicts import Found
from tritonproof.reports.publishable import publishable

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """The findings of one run of all selected models."""
    names = verdicts.selected(request)
    models = [model for model in (*FAULTS, *CONTROLS) if model.name in names]
    return _found(tmp_path_factory.mktemp("planted"), models, "-m", "not speed")


@pytest.fixture(scope="module")
def found_under_load(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """The findings of a run with load."""
    points = ("--batches", "8", "--concurrencies", "8", "--point-budget-s", "1")
    return _found(tmp_path_factory.mktemp("under-load"), UNDER_LOAD, *points)


def _found(folder: Path, models: Sequence[Planted], *options: str) -> Mapping[str, Found]:
    words = list(options)
    for model in models:
        planted.write(folder / "models", model)
        if model.samples:
            samples = planted.write_samples(folder / model.samples, model.samples)
            words += ["--samples", f"{model.name}={samples}"]
        if model.tolerance is not None:
            words += ["--tolerance", f"{model.name}={model.tolerance}"]
    return verdicts.run(folder, ["--repository", str(folder / "models"), *words]).models


@pytest.mark.parametrize("model", [*FAULTS, *CONTROLS], ids=lambda model: model.name)
def test_planted_fault_is_found_and_honest_model_passes(model: Planted, found: Mapping[str, Found]) -> None:
    found[model.name].hold_to(model.expected)


@pytest.mark.parametrize("model", UNDER_LOAD, ids=[entry.name for entry in UNDER_LOAD])
def test_speed_is_shown_only_of_right_answers(model: Planted, found_under_load: Mapping[str, Found]) -> None:
    finding = found_under_load[model.name]
    finding.hold_to(model.expected)
    assert finding.record is not None
    assert bool(publishable(finding.record).points) == (model.expected == verdicts.PASSES)
