"""The gates by name: the function that checks each, and what it needs of the model. Their order and what they
demand are in the record's schema, since reports need those."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tritonproof.gates.declared import check_declared, check_largest_batch
from tritonproof.gates.recorded import check_recorded
from tritonproof.gates.repeat_checks import (
    check_batches,
    check_in_flight,
    check_reloaded,
    check_repeated,
)
from tritonproof.gates.served import CheckedGate, GateContext
from tritonproof.gates.transports import check_transports


@dataclass(frozen=True)
class GateCheck:
    check: Callable[[GateContext], CheckedGate]
    after_reload: bool = False
    """Whether the model is loaded again, for offline, between its answers alone and the check; all others
    check it as it is loaded online."""
    needs_configuration: bool = False
    """Whether it checks the model's configuration, which not every server gives."""


GATE_CHECKS: Mapping[str, GateCheck] = {
    "repeated": GateCheck(check_repeated),
    "in-flight": GateCheck(check_in_flight),
    "batches": GateCheck(check_batches),
    "transports": GateCheck(check_transports),
    "declared": GateCheck(check_declared),
    "largest-batch": GateCheck(check_largest_batch, needs_configuration=True),
    "recorded": GateCheck(check_recorded),
    "reloaded": GateCheck(check_reloaded, after_reload=True),
}
"""All but the gate `baseline`, which compares two servers."""
