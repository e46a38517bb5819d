"""FastPitch's micro size: what the synthesiser says, and what the limits and the parity notice."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.data.speech import spectrogram, synthesiser
from fixtures.models import fastpitch
from fixtures.models.fastpitch import samples as evaluation_data
from fixtures.models.fastpitch.metrics import DURATIONS, FRAME_COUNT, MEL
from fixtures.spec import Arrays, Metric

_, MICRO = fastpitch.MODELS


def test_held_out_utterances_are_never_trained_on_and_fit() -> None:
    splits = {split: evaluation_data.synthesised(split) for split in ("training", "evaluation")}
    assert len(splits["evaluation"]) == 256
    assert len(splits["training"]) == 3000
    assert not {u.text for u in splits["training"]} & {u.text for u in splits["evaluation"]}
    for utterance in (*splits["training"], *splits["evaluation"]):
        assert len(utterance.text) == len(utterance.durations) == len(utterance.pitch) <= 28
        assert utterance.durations.sum() == utterance.mel.shape[1] <= 128


def test_the_synthesiser_speaks_as_its_rules_say() -> None:
    spoken = synthesiser.speak("tadan?")
    assert spoken.durations.tolist() == [2, 5, 2, 7, 3, 6]
    assert spoken.pitch[[0, 5]].tolist() == [0, 0]
    flat = synthesiser.speak("tadan.")
    assert spoken.pitch[3] == pytest.approx(flat.pitch[3] + 1.2)
    # A question sounds different from where its pitch rises on.
    differs = np.abs(spoken.mel - flat.mel).max(axis=0) > 0.1
    assert differs[2:].any()
    assert not differs[0]
    assert spoken.mel.min() == pytest.approx(spectrogram.SILENCE)


@pytest.fixture(scope="module")
def committed() -> Any:
    return MICRO.load(None).network


def scores(outputs: Arrays, framework: Arrays) -> dict[str, float]:
    labels = MICRO.samples("evaluation", None, None).labels
    return {m.name: float(m.score(MICRO.keep(outputs), labels, framework).mean()) for m in MICRO.metrics}


def is_met(metric: Metric, score: float, slack: float = 1) -> bool:
    """Whether a score keeps its FP32 limit, multiplied by `slack` where lower is better."""
    limit = metric.limits["fp32"].value
    return score >= limit if metric.better == "higher" else score <= slack * limit


@pytest.fixture(scope="module")
def evaluated(committed: Any) -> Arrays:
    """The committed network's outputs for the whole evaluation part."""
    samples = MICRO.samples("evaluation", None, None)
    return MICRO.run(committed, samples.load(range(len(samples))))


def test_the_committed_weights_keep_every_limit_with_exact_durations(evaluated: Arrays) -> None:
    found = scores(evaluated, evaluated)
    for metric in MICRO.metrics:
        assert is_met(metric, found[metric.name]), metric.name
    for i, utterance in enumerate(evaluation_data.synthesised("evaluation")):
        spoken = evaluated[DURATIONS][i, : len(utterance.text)]
        np.testing.assert_array_equal(spoken, utterance.durations, err_msg=utterance.text)


def faults() -> dict[str, Callable[[dict[str, np.ndarray]], None]]:
    def lost(outputs: dict[str, np.ndarray]) -> None:
        outputs[FRAME_COUNT] = outputs[FRAME_COUNT] - 1

    return {
        "rows in another order": lambda o: o.update({k: np.roll(v, 1, axis=0) for k, v in o.items()}),
        "bands in another order": lambda o: o.update({MEL: o[MEL][:, ::-1]}),
        "one frame late": lambda o: o.update({MEL: np.roll(o[MEL], 1, axis=2)}),
        "one frame lost": lost,
        "louder": lambda o: o.update({MEL: o[MEL] + 0.2}),
    }


@pytest.mark.parametrize("fault", faults())
def test_a_fault_in_the_outputs_misses_the_limits_widely(evaluated: Arrays, fault: str) -> None:
    faulty = dict(evaluated)
    faults()[fault](faulty)
    found = scores(faulty, evaluated)
    first, second, _ = MICRO.metrics
    assert not is_met(first, found[first.name], slack=1.5)
    assert not is_met(second, found[second.name], slack=1000)


def test_weights_perturbed_by_a_twentieth_miss_parity_and_the_limits_widely(
    committed: Any, evaluated: Arrays
) -> None:
    perturbed = copy.deepcopy(committed)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in perturbed.parameters():
            parameter += 0.05 * parameter.std(correction=0) * torch.randn_like(parameter)
    samples = MICRO.samples("evaluation", None, None)
    outputs = MICRO.run(perturbed, samples.load(range(len(samples))))
    found = scores(outputs, evaluated)
    first, second, _ = MICRO.metrics
    assert not is_met(first, found[first.name])
    assert not is_met(second, found[second.name], slack=1000)
    # Conversion parity's relative error may be 1e-4 in FP32.
    assert np.abs(outputs[MEL] - evaluated[MEL]).max() > 1e-2 * np.abs(evaluated[MEL]).max()


def test_a_lost_pitch_is_seen(committed: Any, evaluated: Arrays) -> None:
    monotonous = copy.deepcopy(committed)
    torch.nn.init.zeros_(monotonous.pitch_emb.weight)
    samples = MICRO.samples("evaluation", None, None)
    found = scores(MICRO.run(monotonous, samples.load(range(len(samples)))), evaluated)
    for metric in MICRO.metrics[:2]:
        assert not is_met(metric, found[metric.name], slack=2), metric.name
