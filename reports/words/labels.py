"""How the figures of a record are written in tables: one way for all of them."""

from reports.record.schema import Case, Estimate, Load, Record

# The names a reader knows, by mnemonic. One that is not here is shown as it is.
_ACCELERATORS = {"trt": "TensorRT", "cuda": "CUDA"}


def rate(estimate: Estimate, thousands: str = "") -> str:
    """Inferences per second; `thousands` stands between groups of three digits."""
    return f"{estimate.value:{thousands}.1f}" if estimate.value >= 10 else f"{estimate.value:.3g}"


def ms(value: float | None) -> str:
    """Milliseconds, to the microsecond."""
    return "-" if value is None else f"{value:.3f}"


def latency(load: Load, name: str) -> str:
    """A latency of a load point in milliseconds: avg, p50, p90, p95 or p99."""
    estimate = load.latency_ms.get(name)
    return ms(estimate.value if estimate else None)


def point(load: Load) -> str:
    """What a load point is called within its scenario."""
    if load.request_rate_per_s is not None:
        return schedule(load)
    return size(load.scenario, load.batch, load.concurrency)


def full_point(load: Load) -> str:
    """The same with its scenario: `offline, batch 8`."""
    return f"{load.scenario}, {point(load)}"


def size(scenario: str, batch: int, concurrency: int) -> str:
    """The batch offline, the concurrency online."""
    return f"batch {batch}" if scenario == "offline" else f"concurrency {concurrency}"


def schedule(load: Load) -> str:
    """The request rate, and how requests arrive."""
    return f"{load.request_rate_per_s:g}/s, {load.arrivals}"


def device(record: Record) -> str:
    """The CPU or GPU that the case was measured on."""
    if record.case.target == "cpu":
        return record.machine.cpu
    return record.machine.gpu or record.case.target.upper()


def accelerator(case: Case, none: str = "-") -> str:
    """The accelerator that the case's name says."""
    return _ACCELERATORS.get(case.accelerator, case.accelerator) if case.accelerator else none


def backend_accelerator(record: Record) -> str:
    """As published: the case's own, and what its format brings: CUDA for PyTorch on a GPU, TensorRT for TF-TRT."""
    if record.case.accelerator is None and record.case.target != "cpu":
        if record.case.format == "tf-trt":
            return _ACCELERATORS["trt"]
        if record.build.engine == "PyTorch":
            return _ACCELERATORS["cuda"]
    return accelerator(record.case)


def sequence_length(record: Record) -> str:
    """Tokens or symbols of the model's first input, where that is a sequence."""
    shape = _first_input(record)
    return str(shape[0]) if len(shape) == 1 else "-"


def image_resolution(record: Record) -> str:
    """The shape of the model's first input, where that is an image or a volume: `4x128x128x128`."""
    shape = _first_input(record)
    return "x".join(map(str, shape)) if len(shape) > 1 else "-"


def _first_input(record: Record) -> tuple[int, ...]:
    return tuple(next(iter(record.build.inputs.values()), ()))
