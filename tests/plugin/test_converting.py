"""Which of the selected cases are converted before the first test."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fixtures.plugin.converting import conversions
from tests.collecting import WITHOUT

PAIR = ("-k", "cpu-resnet50-micro and ts and fp32")


@dataclass
class Looked:
    """What a run would convert first, and the cases of its tests in their order."""

    first: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        session.config.option.collectonly = False  # as in a run
        self.first = [job.case for job in conversions(session)]
        session.config.option.collectonly = True
        cases = [item.callspec.params.get("case") for item in session.items if hasattr(item, "callspec")]
        self.cases = list(dict.fromkeys(map(str, cases)))


def look(repos: Path, *arguments: str) -> Looked:
    looked = Looked()
    places = ("--model-repos", str(repos), "--results", str(repos / "results"))
    pytest.main(["benchmarks", "--collect-only", "-q", *WITHOUT, *places, *arguments], plugins=[looked])
    return looked


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "cpu and (resnet50-micro or fastpitch-micro)"),
        ("-k", "cpu and (resnet50-micro or fastpitch-micro) and offline"),
        (*PAIR, "--convert-only"),
    ],
    ids=["all stages", "one stage", "converting alone"],
)
def test_all_cases_are_converted_first_in_the_order_of_the_tests(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    found = look(tmp_path, *arguments)
    assert len(found.cases) > 1
    assert found.first == found.cases


@pytest.mark.parametrize(
    "arguments",
    [("--target", "a100", "-k", "resnet50"), (*PAIR, "--tx", "popen")],
    ids=["on a GPU", "workers of xdist"],
)
def test_those_that_share_a_gpu_and_those_of_other_processes_are_not(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    found = look(tmp_path, *arguments)
    assert found.cases
    assert not found.first
