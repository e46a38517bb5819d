"""Records to markdown: the published tables of one case, and the summary of many.

A case that has not passed shows no speed: what would show one gives the reason in a sentence instead.
"""

from collections.abc import Sequence

from reports.markdown import markdown, text
from reports.record import (
    COMPONENTS,
    Case,
    Estimate,
    Load,
    Machine,
    Record,
    case_id,
    has_passed,
)
from reports.search import search_paragraph
from reports.verdict import (
    accuracy_sentence,
    main_score,
    notes,
    number,
    served_score,
    unmeasured,
    why_no_speed,
)

#: The columns of the published tables, by scenario. Latencies are in milliseconds.
COLUMNS = {
    "offline": (
        "Precision",
        "Backend Accelerator",
        "Client Batch Size",
        "Inferences/second",
        "P90 Latency",
        "P95 Latency",
        "P99 Latency",
        "Avg Latency",
    ),
    "online": (
        "Concurrent client requests",
        "Inferences/second",
        "Client Send",
        "Network+server Send/recv",
        "Server Queue",
        "Server Compute Input",
        "Server Compute Infer",
        "Server Compute Output",
        "Client Recv",
        "P50 Latency",
        "P90 Latency",
        "P95 Latency",
        "P99 Latency",
        "Avg Latency",
    ),
}

SUMMARY_COLUMNS = (
    "Case",
    "Format",
    "Precision",
    "Accuracy, served",
    "Accuracy, framework",
    "Inferences/second",
    "At",
    "P99 Latency (ms)",
    "Served by",
)

# The names a reader knows, by mnemonic. One that is not here is shown as it is.
_ACCELERATORS = {"trt": "TensorRT", "cuda": "CUDA"}


def offline_table(record: Record) -> str:
    """The offline table, one row per client batch size; a sentence where there is nothing to show."""
    return _scenario_table(record, "offline")


def online_table(record: Record) -> str:
    """The online table, one row per concurrency; a sentence where there is nothing to show."""
    return _scenario_table(record, "online")


def parameters_table(record: Record, scenario: str) -> str:
    """The settings on the server that hold for every row of the scenario, `offline` or `online`."""
    deployment = record.deployment
    dynamic = scenario == "online"
    sizes = " ".join(map(str, deployment.preferred_batch_sizes)) or "none"
    rows = [
        ("Max Batch Size", str(deployment.max_batch_size)),
        ("Number of model instances", str(deployment.instances)),
        ("Triton Max Queue Delay (µs)", str(deployment.max_queue_delay_us) if dynamic else "-"),
        ("Triton Preferred Batch Sizes", sizes if dynamic else "-"),
    ]
    return markdown(("Parameter Name", "Parameter Value"), rows, "ll")


def configuration_list(record: Record) -> str:
    """What was served, on what and by what, as a markdown list."""
    case, serving, deployment = record.case, record.serving, record.deployment
    options = [
        name for name, on in (("CUDA graphs", deployment.cuda_graphs), ("warm-up", deployment.warmup)) if on
    ]
    lines = {
        "Case": f"`{case_id(case)}`",
        "CPU" if case.target == "cpu" else "GPU": _device(record),
        "Backend": _backend(record),
        "Backend accelerator": _accelerator(case),
        "Precision": case.precision.upper(),
        "Model format": record.build.format,
        "Options": ", ".join(options),
        "Served by": f"{serving.kind} server, Triton {serving.triton}, {serving.backend} backend, "
        f"shared memory: {serving.shared_memory}"
        if serving
        else "",
        "Accuracy": accuracy_sentence(record),
        "Measured": record.updated.partition("T")[0],
    }
    return "\n".join(f"- {name}: {text(value)}" for name, value in lines.items() if value)


def case_section(record: Record) -> str:
    """Headings, configuration, parameters and tables of a case: first offline, then online; then what a search
    within a latency budget found."""
    sections = [_scenario_section(record, scenario) for scenario in COLUMNS]
    if found := search_paragraph(record):
        sections += ["#### Within a latency budget", text(found)]
    return "\n\n".join(sections)


def summary_table(records: Sequence[Record]) -> str:
    """One row per case: is it right, how fast is it at its best, and who served it."""
    rows, confidences = [], set()
    remarks: dict[str, list[str]] = {}
    for record in records:
        best = _best(record)
        rows.append(_summary_row(record, best))
        if best:
            confidences.add(best.throughput_per_s.confidence)
        for note in _summary_notes(record, best):
            remarks.setdefault(note, []).append(f"`{case_id(record.case)}`")
    blocks = [markdown(SUMMARY_COLUMNS, rows, "lllllrlrl")]
    if confidences:
        levels = " or ".join(f"{100 * level:g} %" for level in sorted(confidences))
        blocks.append(
            "Inferences/second: the best of the case's load points, ± half the width of its "
            f"{levels} confidence interval."
        )
    if remarks:
        blocks.append("\n".join(f"- {', '.join(cases)}: {note}" for note, cases in remarks.items()))
    return "\n\n".join(blocks)


def machine_sentence(records: Sequence[Record]) -> str:
    """The machine the records were measured on; a list by case if there was more than one."""
    stamps: list[tuple[Machine, list[str]]] = []
    for record in records:
        cases = next((cases for machine, cases in stamps if machine == record.machine), None)
        if cases is None:
            stamps.append((record.machine, cases := []))
        cases.append(f"`{case_id(record.case)}`")
    if len(stamps) == 1:
        return f"Measured on {_machine(stamps[0][0])}."
    lines = [f"- {', '.join(cases)}: {_machine(machine)}." for machine, cases in stamps]
    return "Measured on more than one machine or set of versions:\n\n" + "\n".join(lines)


def _scenario_section(record: Record, scenario: str) -> str:
    batching = {
        "offline": "Static batching, one request in flight. The dynamic batcher is off, so queue delay and "
        "preferred batch sizes do not apply (-). Latencies are in milliseconds.",
        "online": f"Dynamic batching; {_samples_per_request(record)}. Latencies are in milliseconds.",
    }
    case = record.case
    engine = " ".join(filter(None, (record.build.engine, _accelerator(case, ""))))
    blocks = [
        f"#### {scenario.capitalize()}: {text(_device(record))}, {engine} with {case.precision.upper()}",
        configuration_list(record),
        parameters_table(record, scenario),
        batching[scenario],
        _scenario_table(record, scenario),
    ]
    return "\n\n".join(blocks)


def _scenario_table(record: Record, scenario: str) -> str:
    if hidden := why_no_speed(record):
        return text(hidden)
    loads = _loads(record, scenario)
    if not loads:
        return f"No {scenario} load point has been measured."
    row, alignment = {"offline": (_offline_row, "llrrrrrr"), "online": (_online_row, "r" * 14)}[scenario]
    table = markdown(COLUMNS[scenario], [row(record, load) for load in loads], alignment)
    marked = [f"- {_point(load)}: {text(notes(load))}" for load in loads if load.marks]
    return "\n\n".join([table, "Marked points (*):", "\n".join(marked)] if marked else [table])


def _loads(record: Record, scenario: str) -> list[Load]:
    loads = (load for load in record.loads if load.scenario == scenario)
    if scenario == "offline":
        return sorted(loads, key=lambda load: (load.batch, load.concurrency))
    return sorted(loads, key=lambda load: (load.concurrency, load.batch))


def _offline_row(record: Record, load: Load) -> list[str]:
    return [
        record.case.precision.upper(),
        _accelerator(record.case),
        str(load.batch),
        _rate(load),
        *(_latency(load, name) for name in ("p90", "p95", "p99", "avg")),
    ]


def _online_row(_record: Record, load: Load) -> list[str]:
    return [
        str(load.concurrency),
        _rate(load),
        *(_ms(load.components_ms.get(name)) for name in COMPONENTS),
        *(_latency(load, name) for name in ("p50", "p90", "p95", "p99", "avg")),
    ]


def _summary_row(record: Record, best: Load | None) -> list[str]:
    case, serving = record.case, record.serving
    score = main_score(record)
    return [
        f"`{case_id(case)}`",
        record.build.format,
        case.precision.upper(),
        served_score(record),
        number(score, score.framework) if score else "-",
        f"{_rate(best)} ± {_half_width(best.throughput_per_s)}" if best else "-",
        f"{best.scenario}, {_point(best)}" if best else "-",
        _latency(best, "p99") if best else "-",
        f"{serving.kind}, Triton {serving.triton}, {serving.backend}" if serving else "not served yet",
    ]


def _summary_notes(record: Record, best: Load | None) -> list[str]:
    """What a reader should know about a row of the summary and its cells cannot hold."""
    found = []
    searched = search_paragraph(record)
    if (hidden := why_no_speed(record)) and (record.loads or not searched):
        found.append(hidden)
    if main_score(record) is None and record.build.weights.startswith("random"):
        found.append(f"{unmeasured(record)}.")
    if searched:
        found.append(searched)
    if best and best.marks:
        found.append(f"* {best.scenario}, {_point(best)}: {notes(best)}")
    return [text(note) for note in found]


def _best(record: Record) -> Load | None:
    """The load point of the highest throughput, if the case may show one."""
    loads = record.loads if has_passed(record) else ()
    return max(loads, key=lambda load: load.throughput_per_s.value, default=None)


def _rate(load: Load) -> str:
    value = load.throughput_per_s.value
    return (f"{value:.1f}" if value >= 10 else f"{value:.3g}") + ("*" if load.marks else "")


def _half_width(estimate: Estimate) -> str:
    if not estimate.value:
        return "-"
    percent = 50 * (estimate.high - estimate.low) / estimate.value
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def _latency(load: Load, name: str) -> str:
    estimate = load.latency_ms.get(name)
    return _ms(estimate.value if estimate else None)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _point(load: Load) -> str:
    return f"batch {load.batch}" if load.scenario == "offline" else f"concurrency {load.concurrency}"


def _samples_per_request(record: Record) -> str:
    batches = sorted({load.batch for load in record.loads if load.scenario == "online"}) or [1]
    return f"client batch size {', '.join(map(str, batches))}"


def _device(record: Record) -> str:
    machine = record.machine
    if record.case.target == "cpu":
        return machine.cpu
    return machine.gpu or record.case.target.upper()


def _backend(record: Record) -> str:
    is_python = record.serving is not None and record.serving.backend == "python"
    return record.build.engine + (", in Triton's Python backend" if is_python else "")


def _accelerator(case: Case, none: str = "-") -> str:
    return _ACCELERATORS.get(case.accelerator, case.accelerator) if case.accelerator else none


def _machine(machine: Machine) -> str:
    gpu = f"{machine.gpu} (driver {machine.gpu_driver}), " if machine.gpu else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    sentence = f"{gpu}{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB memory; {machine.system}"
    return text(f"{sentence}; {versions}" if versions else sentence)
