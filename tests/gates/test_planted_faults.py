"""Faults on a real server: each gate finds its own without labels, and sound models pass."""

from collections.abc import Iterable

import pytest

from tests import toy
from tests.conftest import LoadRuntime
from tests.gates.made_up_model import CASE_LIMITS
from tritonproof.client.requests import LoadedAs, ServedModel
from tritonproof.gates import GATES
from tritonproof.gates.context import GateContext, ask_one_by_one
from tritonproof.record.correctness import GateResult

_RUNTIME = """
import numpy as np

def load(artifact, parameters):
    kept = {{}}
    def predict(arrays):
        x = arrays[0]
        out = 3 * x + 1
        before = kept.get("sum", 0.0)
        kept["sum"] = float(out.sum())
        {fault}
        return [out]
    return predict
"""
TRIED = [name for name, gate in GATES.items() if not gate.after_reload]
"""The gates that need only a context, without a reload of the model."""
_BEFORE = "kept['out'], out = out, (kept.get('out') if len(kept.get('out', [])) == len(x) else out)"
FAULTS = {
    "rows swapped in batches": ({"batches"}, "if len(x) > 1: out = out[::-1].copy()"),
    "its neighbours": ({"batches"}, "if len(x) > 1: out = out + 0.001 * x.mean(axis=0)"),
    "batches of three alone": ({"batches"}, "if len(x) == 3: out = out * np.float32(1.001)"),
    "a leak of the answer before": ({"repeated"}, "out = out + np.float32(0.001 * before)"),
    "the answer to the request before": ({"repeated"}, _BEFORE),
    "another type": ({"declared"}, "out = out.astype(np.float64)"),
    "another shape": ({"declared"}, "out = out[:, :3].copy()"),
    "NaN": ({"declared"}, "out[:, 2] = np.nan"),
    "a batch size that fails": ({"largest-batch"}, "assert len(x) != 3, 'three'"),
}
"""Faults by name: the gates that have to find each, and its code; `declared` is tried with all."""


def results_of(served: ServedModel, names: Iterable[str]) -> dict[str, GateResult]:
    """The results of these gates, by name."""
    loaded, alone = LoadedAs(toy.ONLINE, "python"), ask_one_by_one(served, CASE_LIMITS)
    context = GateContext(served, loaded, alone, CASE_LIMITS, can_share_memory=True)
    return {name: GATES[name].check(context).result for name in names}


def test_sound_model_passes_every_gate(serving: LoadRuntime) -> None:
    results = results_of(serving(_RUNTIME.format(fault="pass"), 12, "offline"), TRIED)
    assert {name: result.fault for name, result in results.items() if result.fault} == {}
    assert {name: result.gate for name, result in results.items()} == {name: name for name in TRIED}
    assert all(result.requests for result in results.values())
    assert len(results["transport"].tried.split(", ")) == 4


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found_by_its_gate(name: str, serving: LoadRuntime) -> None:
    gates, fault = FAULTS[name]
    served = serving(_RUNTIME.format(fault=fault), 12, "offline")
    results = results_of(served, [name for name in TRIED if name in {*gates, "declared"}])
    assert {gate for gate, result in results.items() if result.fault} == gates
