"""Search: the highest throughput within a latency budget, and the configuration that gives it, still right."""

import dataclasses

import pytest

from fixtures.build.repository import Build
from fixtures.errors import AccuracyError, SpeedError
from fixtures.plugin.proving import Evaluate
from fixtures.plugin.recorder import Recorder
from fixtures.plugin.searching import FindFastest
from fixtures.prove.accuracy import accuracy_ledger, missing_options, score_each_sample
from fixtures.prove.per_sample import per_sample_file
from fixtures.spec import Case, Samples, Weights
from reports.record.schema import Conversion
from reports.words.latency_budget import beyond_text, found_text
from reports.words.rightness import conversion_failure, ledger_failures


@pytest.mark.load
def test_search(
    case: Case,
    weights: Weights,
    build: Build,
    samples: Samples,
    parity: Conversion,
    find_fastest: FindFastest,
    evaluate: Evaluate,
    recorder: Recorder,
) -> None:
    """The winner keeps the budget, and passes the gates of conversion and accuracy as it is configured."""
    recorder.conversion(parity)
    missing = missing_options(case.model, weights, samples)
    found, deployed = find_fastest()
    recorder.search(deployed.serving, found, missing)
    if found.verdict == "beyond":
        raise SpeedError(beyond_text(found))
    stages = evaluate(deployed)
    per_sample = score_each_sample(case, samples, stages, labelled=missing is None)
    proven = accuracy_ledger(case, samples, stages, per_sample)
    found = dataclasses.replace(found, accuracy=proven)
    recorder.search(deployed.serving, found, missing)
    recorder.samples(per_sample_file(case, build.digest, samples, stages, per_sample), of_search=True)
    recorder.figure(found_text(found))
    failures = ledger_failures(proven)
    if failure := conversion_failure(parity):
        failures.append(failure)
    if failures:
        raise AccuracyError("; ".join(failures))
