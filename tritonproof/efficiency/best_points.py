"""Finds the fastest load points of a case, and of its model's reference format, among those measured or on
record; and the batch that matches one in process. Pure functions."""

from collections.abc import Sequence

from tritonproof.base.errors import NotAvailableError
from tritonproof.record.schema import Deployment, Machine, PointResult, Record, best_of
from tritonproof.spec import Case


def best_points(case: Case, results: Sequence[PointResult]) -> list[PointResult]:
    """The best point of all for a micro model, which has many cases; else that of each scenario, offline
    first, as it is still loaded. Raises NotAvailableError if no point has a number of requests in flight."""
    by_scenario = ([one for one in results if one.point.scenario == name] for name in ("offline", "online"))
    points = [best for best in map(best_of, by_scenario) if best is not None]
    overall = best_of(points)
    if overall is None:
        raise NotAvailableError(
            "the best load point is not known: none has been measured with a number of requests in flight",
            where=case,
            fix="select test_offline or test_online too",
        )
    return [overall] if case.model.micro else points


def points_of(
    record: Record | None, machine: Machine, digest: str, deployment: Deployment
) -> Sequence[PointResult]:
    """The record's load points if it is of this machine, build and deployment, else none."""
    if record is None or (record.machine, record.build.digest) != (machine, digest):
        return ()
    return record.points if record.deployment == deployment else ()


def reference_best(
    record: Record | None, machine: Machine, digest: str, deployment: Deployment
) -> PointResult | None:
    """The reference format's best load point on record; None if that is of another machine, build or
    deployment, if a gate failed, if the conversion was not compared, and without load points."""
    if record is None or record.failures or record.conversion is None or not record.conversion.passed:
        return None
    if record.accuracy is not None and not record.accuracy.passed:
        return None
    return best_of(points_of(record, machine, digest, deployment))


def batch_in_process(result: PointResult, deployment: Deployment) -> int:
    """The batch that the server can form at a point, for a fair comparison in process: offline that of the
    requests; online the largest preferred size, else the largest of all, if as many are in flight."""
    point = result.point
    if point.scenario == "offline":
        return point.batch
    aim = max(deployment.preferred_batch_sizes, default=deployment.max_batch_size)
    return max(point.batch, min(aim, point.batch * point.concurrency))
