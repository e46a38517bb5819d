"""Cases whose fastest points were measured in turns with the reference format's."""

from typing import Any

from msgspec import structs

from tests import sample_records
from tritonproof.record.schema import Ratio, Record, ReferenceComparison

ONE = sample_records.efficiency("online", 32)


def beside(format_: str, ratio: float, low: float, high: float, digest: str = "", **changes: Any) -> Record:
    """A case whose fastest point took turns with the reference format's, of the build with this digest."""
    compared = ReferenceComparison("a40-resnet50-onnx-fp32", Ratio(ratio, low, high), digest)
    record = sample_records.record(efficiency=(structs.replace(ONE, reference=compared),))
    case = structs.replace(record.case, format=format_, accelerator=None, precision="fp32", **changes)
    return structs.replace(record, case=case)


ONNX = beside("onnx", 1.0, 1.0, 1.0)
FAST = beside("pt2", 1.5, 1.4, 1.6)
AS_FAST = beside("trt", 1.45, 1.38, 1.52)
SLOW = beside("ts-trace", 0.6, 0.5, 0.7)
HIDDEN = beside("trt", 3.0, 1.7, 4.8)
