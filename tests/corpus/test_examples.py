"""One repository of models in the shape of Triton's published examples: right ones pass, and each of the
others fails or skips for its own reason."""

from pathlib import Path

import pytest

from tests.corpus import examples, verdicts
from tests.corpus.examples import EXAMPLES, Example
from tests.corpus.verdicts import Run

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of all examples."""
    folder: Path = tmp_path_factory.mktemp("examples")
    for example in EXAMPLES:
        examples.write(folder / "models", example)
    return verdicts.run(folder, ["--repository", str(folder / "models"), "-m", "not load"])


@pytest.mark.parametrize("example", EXAMPLES, ids=[entry.name for entry in EXAMPLES])
def test_example_gets_expected_verdict(example: Example, run: Run) -> None:
    run.models[example.name].hold_to(example.expected)


@pytest.mark.parametrize(
    "example",
    [entry for entry in EXAMPLES if entry.expected == verdicts.PASSES],
    ids=lambda entry: entry.name,
)
def test_passing_model_is_in_summary(example: Example, run: Run) -> None:
    summary = run.text.partition(" summary ")[2]
    assert f"| {example.name} " in summary
    assert run.models[example.name].record is not None
