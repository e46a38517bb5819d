"""Load points with the figures of published rows."""

from tritonproof.reports.published import PublishedRow, published_point

from tests import sample_records
from tritonproof.record.schema import COMPONENTS, PointResult


def point(row: PublishedRow) -> PointResult:
    latencies = {name: row[f"latency_{name}_ms"] for name in ("p50", "p90", "p95", "p99", "avg")}
    return sample_records.measured(
        row["scenario"],
        0,
        row["throughput_per_s"],
        point=published_point(row),
        latency_ms={name: sample_records.estimate(value) for name, value in latencies.items() if value},
        components_ms={name: row[f"{name}_ms"] for name in COMPONENTS if row[f"{name}_ms"] is not None},
    )
