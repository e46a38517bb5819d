"""Records to markdown: the published tables of one case, and the summary of many.

A case that has not passed shows no speed: what would show one gives the reason in a sentence instead.
"""

import dataclasses
from collections.abc import Sequence

from reports.cost import cost
from reports.efficiency import efficiency_section
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
    comparison_verdict,
    main_score,
    notes,
    number,
    ratio_text,
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

_SUMMARY_ALIGNMENT = "lllllrlrlr"
COST_COLUMN = "Cost per million correct"
"""Of the summary, where any record has a price."""

USE_COLUMNS = (
    "Joules per 1,000 inferences",
    "Mean power (W)",
    "GPU utilisation",
    "GPU memory (MiB)",
    "SM clock (MHz)",
    "Cost per million correct inferences",
)
"""Of the table of energy and cost, after the load point; a column without a figure is left out."""
COMPARISON_COLUMNS = ("Case", "At", "Speed, ratio", "To", "Verdict")

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


def configuration_list(record: Record, scenario: str | None) -> str:
    """What was served, on what and by what, and what its start for a scenario took, as a markdown list."""
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
        "Start": _start(record, scenario) if scenario else "",
        "Accuracy": accuracy_sentence(record),
        "Measured": record.updated.partition("T")[0],
    }
    return "\n".join(f"- {name}: {text(value)}" for name, value in lines.items() if value)


def _start(record: Record, scenario: str) -> str:
    """Seconds until the first answer, and until latencies were stationary under load."""
    start = next((one for one in record.starts if one.scenario == scenario), None)
    if start is None:
        return ""
    server = f"server {start.server_s:.1f} s, " if start.server_s is not None else ""
    warm_ups = [load.warm_up_s for load in _loads(record, scenario)]
    longest = f", warm-up under load {max(warm_ups):.2g} s at most" if warm_ups else ""
    return f"{server}model load {start.load_s:.1f} s, first request {start.first_request_ms:.1f} ms{longest}"


def case_section(record: Record) -> str:
    """Headings, configuration, parameters and tables of a case: offline, online, what serving costs, and what a
    search within a latency budget found."""
    sections = [_scenario_section(record, scenario) for scenario in COLUMNS]
    if why_no_speed(record) is None:
        sections.append(efficiency_section(record))
    if found := search_paragraph(record):
        sections += ["#### Within a latency budget", text(found)]
    return "\n\n".join(filter(None, sections))


def summary_table(records: Sequence[Record]) -> str:
    """One row per case: is it right, how fast is it at its best, and who served it."""
    columns, rows = summary_rows(records)
    return "\n\n".join([markdown(columns, rows, _SUMMARY_ALIGNMENT[: len(columns)]), *summary_remarks(records)])


def summary_rows(records: Sequence[Record]) -> tuple[Sequence[str], list[list[str]]]:
    """The columns of the summary, and the cells of a row per record."""
    is_priced = any(record.price_per_hour is not None for record in records)
    rows = []
    for record in records:
        best = _best(record)
        rows.append(_summary_row(record, best) + ([_cost(record, best)] if is_priced else []))
    return (*SUMMARY_COLUMNS, *([COST_COLUMN] if is_priced else [])), rows


def summary_remarks(records: Sequence[Record]) -> list[str]:
    """What stands below the summary: how its figures are to be read, and what its cells cannot hold."""
    best_of = [(record, _best(record)) for record in records]
    blocks = []
    if confidences := {best.throughput_per_s.confidence for _, best in best_of if best}:
        levels = " or ".join(f"{100 * level:g} %" for level in sorted(confidences))
        blocks.append(
            "Inferences/second: the best of the case's load points, ± half the width of its "
            f"{levels} confidence interval."
        )
    if any(record.price_per_hour is not None for record in records):
        blocks.append(_prices(records))
    remarks: dict[str, list[str]] = {}
    for record, best in best_of:
        for note in _summary_notes(record, best):
            remarks.setdefault(note, []).append(f"`{case_id(record.case)}`")
    if remarks:
        blocks.append("\n".join(f"- {', '.join(cases)}: {note}" for note, cases in remarks.items()))
    return blocks


def comparison_table(records: Sequence[Record], scenario: str | None = None) -> str:
    """One row per load point that was compared with another build; empty where none was."""
    rows = [
        [
            f"`{case_id(record.case)}`",
            f"{load.scenario}, {_point(load)}",
            ratio_text(load.comparison),
            load.comparison.reference,
            comparison_verdict(load.comparison),
        ]
        for record in records
        for load in record.loads
        if load.comparison is not None and scenario in (None, load.scenario)
    ]
    return markdown(COMPARISON_COLUMNS, rows, "lllll") if rows else ""


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
        configuration_list(record, scenario),
        parameters_table(record, scenario),
        batching[scenario],
        _scenario_table(record, scenario),
        use_table(record, scenario),
    ]
    if not why_no_speed(record) and (compared := comparison_table([record], scenario)):
        blocks += ["Compared with another build, by throughput, or at a request rate by latency:", compared]
    return "\n\n".join(filter(None, blocks))


def use_table(record: Record, scenario: str) -> str:
    """Energy, GPU and cost per load point; empty where nothing of it is known, or no speed may be shown."""
    loads = [] if why_no_speed(record) else _loads(record, scenario)
    rows = [[_point(load), *_uses(record, load)] for load in loads]
    known = [place for place in range(1, 1 + len(USE_COLUMNS)) if any(row[place] != "-" for row in rows)]
    if not known:
        return ""
    table = markdown(
        ("Load point", *(USE_COLUMNS[place - 1] for place in known)),
        [[row[place] for place in (0, *known)] for row in rows],
        "l" + "r" * len(known),
    )
    return "\n\n".join([table, *([_prices([record])] if record.price_per_hour is not None else [])])


def _uses(record: Record, load: Load) -> list[str]:
    use = load.gpu
    figures = (
        (
            (use.energy_j_per_1000, "{:.4g}"),
            (use.power_w, "{:.1f}"),
            (use.utilisation, "{:.0%}"),
            (use.memory_mib, "{:.0f}"),
            (use.sm_clock_mhz, "{:.0f}"),
        )
        if use
        else ((None, ""),) * 5
    )
    shown = ["-" if value is None else form.format(value) for value, form in figures]
    return [*shown, _cost(record, load)]


def _cost(record: Record, load: Load | None) -> str:
    found = cost(record, load) if load else None
    if found is None:
        return "-"
    return f"{found.per_million:.3g}" + ("" if found.of == "correct inferences" else " (any)")


def _prices(records: Sequence[Record]) -> str:
    prices = sorted({one.price_per_hour for one in records if one.price_per_hour is not None})
    return (
        f"Cost: at {' or '.join(f'{price:g}' for price in prices)} per hour of the machine. An inference counts as "
        "correct by the served score; (any) is per million inferences of any kind, where no score is a share."
    )


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
    return sorted(loads, key=lambda load: (load.request_rate_per_s or 0.0, load.concurrency, load.batch))


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
        str(load.concurrency) if load.request_rate_per_s is None else _schedule(load),
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
    """The load point of the highest throughput, if the case may show one; without the mark of a wide interval, as
    the summary shows the interval itself."""
    loads = record.loads if has_passed(record) else ()
    best = max(loads, key=lambda load: load.throughput_per_s.value, default=None)
    if best is None:
        return None
    return dataclasses.replace(best, marks=[mark for mark in best.marks if mark.code != "wide-interval"])


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
    if load.request_rate_per_s is not None:
        return _schedule(load)
    return f"batch {load.batch}" if load.scenario == "offline" else f"concurrency {load.concurrency}"


def _schedule(load: Load) -> str:
    return f"{load.request_rate_per_s:g}/s, {load.arrivals}"


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
