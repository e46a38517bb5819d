"""Two builds on two real servers. The verdict holds on a busy machine too."""

import contextlib
import os
from pathlib import Path

import numpy as np

from fixtures.against import other_builds
from fixtures.against.comparison import OtherBuild
from fixtures.build.repository import BuiltModel
from fixtures.measure import point_state, sweep
from fixtures.measure.job import Job
from fixtures.measure.load_data import input_data
from fixtures.measure.measurement import Measurement, outcomes
from fixtures.measure.stopping import MeasuringPlan
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint
from reports.record.schema import Comparison
from reports.record.verdicts import comparison_text
from tests.conftest import DEPLOYMENT, SLEEPING, MakeBuild
from tests.toy import samples_of


def compare_builds(mine: BuiltModel, theirs: BuiltModel, folder: Path) -> Comparison:
    """Serve each build with its own Triton and compare them at one point."""
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(
                serve(Choice("embedded"), build.folder.parent, folder / f"log{number}", device="cpu")
            )
            for number, build in enumerate((mine, theirs))
        ]
        servers[0].load(mine, DEPLOYMENT, "offline")
        config = other_builds.for_scenario(other_builds.configuration(theirs.folder), mine.case, "offline")
        servers[1].load_as_found(theirs.folder, config)
        name, model, point = str(mine.case), mine.case.model, LoadPoint("offline", 1, 1)
        sample = {model.inputs[0].name: np.ones((1, 4), np.float32)}
        data = stack.enter_context(input_data(model, samples_of(sample), folder))
        job = Job(servers[0], name, model, point, "system", data.below(servers[0].scratch))
        state = point_state.with_other_build(
            point_state.begin(job), servers[1], name, OtherBuild("the other", 0.03)
        )
        plan = MeasuringPlan(budget_s=120.0)
        outcome = outcomes(sweep.measure([state], plan), plan)[point]
    assert isinstance(outcome, Measurement), outcome
    assert outcome.load.comparison is not None
    return outcome.load.comparison


def test_slower_build_is_found(make_build: MakeBuild, tmp_path: Path) -> None:
    """Each request takes 60 ms in our build and 5 ms in the other."""
    name = f"toy{os.getpid()}"  # names its shared memory too
    mine = make_build(tmp_path / "mine", name, SLEEPING.format(seconds=0.06))
    theirs = make_build(tmp_path / "theirs", name, SLEEPING.format(seconds=0.005))

    comparison = compare_builds(mine, theirs, tmp_path)

    assert comparison.verdict == "slower", comparison_text(comparison)
    assert comparison.ratio.value < 0.5
