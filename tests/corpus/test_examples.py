"""A repository in the shape of Triton's examples: right models pass, others fail or skip with a reason."""

from pathlib import Path

import pytest

from tests.corpus import triton_examples, verdicts
from tests.corpus.triton_examples import EXAMPLES, Example
from tests.corpus.verdicts import Run

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of all examples."""
    folder: Path = tmp_path_factory.mktemp("examples")
    for example in EXAMPLES:
        triton_examples.write(folder / "models", example)
    return verdicts.run(folder, ["--repository", str(folder / "models"), "-m", "not speed"])


@pytest.mark.parametrize("example", EXAMPLES, ids=[entry.name for entry in EXAMPLES])
def test_example_gets_expected_verdict(example: Example, run: Run) -> None:
    """One that passes is in the summary, and on record."""
    run.models[example.name].hold_to(example.expected)
    if example.expected == verdicts.PASSES:
        assert f"| {example.name} " in run.text.partition(" summary ")[2]
        assert run.models[example.name].record is not None
