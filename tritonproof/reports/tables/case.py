"""All blocks of a case: its configuration, its load points, and what else was measured."""

from collections.abc import Callable, Mapping, Sequence

from tritonproof.record import correctness
from tritonproof.record.quantities import AGREEMENT, COUNT, DURATION, LATENCY, RELATIVE_ERROR
from tritonproof.reports import correctness_text, phrases
from tritonproof.reports.nvidia_readmes import nvidia_names, nvidia_settings
from tritonproof.reports.publishable import Publishable
from tritonproof.reports.speed_text import model_warmup_text, search_paragraph
from tritonproof.reports.tables import points
from tritonproof.reports.tables.baseline import baseline_table
from tritonproof.reports.tables.rendering import Formatted, markdown_text
from tritonproof.reports.tables.soak import soak_section, soak_table
from tritonproof.reports.tables.table import Block, Bullets, Column, Heading, Table, cell_of, table


def case_section(record: Publishable) -> list[Block]:
    """Everything of a case's record, by scenario, then what was measured beside the load points."""
    blocks = [*scenario_section(record, "offline"), *scenario_section(record, "online")]
    if any(gate.compares_conversations for gate in record.gates):
        heading = Heading(f"Conversation: {phrases.device_text(record)}, {_engine(record)}", 4)
        blocks = [heading, table(_GATES, record.gates)]
    return [*blocks, *sections_beside_points(record)]


def sections_beside_points(record: Publishable) -> list[Block]:
    """The blocks on what was measured beside the load points."""
    blocks = points.efficiency_section(record)
    if record.baseline is not None:
        blocks += [Heading(f"Beside {record.baseline.baseline_name}", 4), baseline_table([record])]
    if paragraph := search_paragraph(record):
        blocks += [Heading("Within a latency budget", 4), paragraph]
    return [*blocks, *soak_section(record)]


FURTHER_TABLES: Mapping[str, Sequence[Callable[[Sequence[Publishable]], Table]]] = {
    "baseline": (points.comparison_table, baseline_table),
    "thresholds": (points.budget_table,),
    "soak": (soak_table,),
}
"""The tables that a run prints beside its summary, by the option that asks for them; `baseline` is a
property of the settings, for --against and --against-triton."""


def scenario_section(record: Publishable, scenario: str) -> list[Block]:
    precision = f" with {record.case.precision.upper()}" if record.case.precision else ""
    blocks: list[Block] = [
        Heading(f"{scenario.capitalize()}: {phrases.device_text(record)}, {_engine(record)}{precision}", 4),
        configuration_list(record, scenario),
        parameters_table(record, scenario),
        f"{_batching(record, scenario)} Latencies are in milliseconds.",
        points.points_table(record, scenario),
        points.certified_table(record, scenario),
        points.called_models_table(record, scenario),
        points.resources_table(record, scenario),
    ]
    if budgets := points.budget_table([record], scenario):
        blocks += ["Latency budgets:", budgets]
    if not record.why_no_speed and (compared := points.comparison_table([record], scenario)):
        blocks += ["Compared with another build, by throughput, or at a request rate by latency:", compared]
    return blocks


def _batching(record: Publishable, scenario: str) -> str:
    if scenario == "offline":
        if record.case.from_repository:
            return "Whole batches, one request in flight, by the model's own settings."
        return (
            "Static batching, one request in flight. The dynamic batcher is off, so queue delay and "
            "preferred batch sizes do not apply."
        )
    results = (*record.points, *record.hidden)
    sizes = sorted({result.point.batch for result in results if result.point.scenario == "online"}) or [1]
    how = "By the model's own settings" if record.case.from_repository else "Dynamic batching"
    return f"{how}; client batch size {', '.join(map(str, sizes))}."


def _engine(record: Publishable) -> str:
    if record.case.format == "tf-trt":
        return "TF-TRT"
    return " ".join(filter(None, (record.build.library, phrases.accelerator_text(record.case))))


_PARAMETERS: Sequence[Column[tuple[str, str]]] = (
    Column("Parameter Name", lambda setting: setting[0]),
    Column("Parameter Value", lambda setting: setting[1]),
)


def parameters_table(record: Publishable, scenario: str) -> Table:
    """The settings that all rows of a scenario share: every setting, if the source has one table for them."""
    nvidia = nvidia_names(record.case.model, scenario)
    names = nvidia["parameters"] or nvidia["configuration"]
    if scenario == "online":  # BERT's tables lack the batcher's settings: its offline scenario was published
        batcher = ("Triton Max Queue Delay", "Triton Preferred Batch Sizes")
        names += tuple(name for name in batcher if name not in names)
    return table(_PARAMETERS, nvidia_settings(record, scenario, names))


def configuration_list(record: Publishable, scenario: str) -> Bullets:
    """The served model, its hardware and server, the time of its start, and its accuracy."""
    serving, deployment = record.serving, record.deployment
    options = (
        ("CUDA graphs", deployment.cuda_graphs),
        ("convolutions in NHWC", deployment.prefer_nhwc),
        ("warm-up", deployment.warmup),
        ("FP32 in TF32", deployment.tf32 is True),
        ("FP32 without TF32", deployment.tf32 is False),
    )
    nvidia = nvidia_names(record.case.model, scenario)
    served_by = ""
    if serving:
        server = f"{serving.kind} server, {phrases.server_name(serving.triton)}, {serving.backend} backend"
        served_by = f"{server}, shared memory: {serving.shared_memory}"
    measured = (record.updated.partition("T")[0], phrases.measured_text([record]))
    lines = [
        ("Case", f"`{record.name}`"),
        *(nvidia_settings(record, scenario, nvidia["configuration"]) if nvidia["parameters"] else ()),
        ("Options", ", ".join(name for name, on in options if on)),
        ("Served by", served_by),
        ("Start", _start(record, scenario)),
        ("Warm-up", model_warmup_text(record.model_warmup) if record.model_warmup else ""),
        ("Accuracy", correctness_text.accuracy_sentence(record)),
        ("Requests", record.build.requests_note),
        ("Measured", "; ".join(filter(None, measured))),
    ]
    return Bullets([Formatted(f"{name}: {markdown_text(value)}") for name, value in lines if value])


def _start(record: Publishable, scenario: str) -> str:
    """The times until the first answer, and until latencies were stationary under load."""
    start = next((candidate for candidate in record.starts if candidate.scenario == scenario), None)
    if start is None:
        return ""
    server = f"server {DURATION.text(start.server_start_s)}, " if start.server_start_s is not None else ""
    warm_ups = [result.warm_up_s for result in record.points if result.point.scenario == scenario]
    longest = f", warm-up under load {DURATION.text(max(warm_ups))} at most" if warm_ups else ""
    first = LATENCY.text(start.first_request_ms)
    return f"{server}model load {DURATION.text(start.loading_s)}, first request {first}{longest}"


def _stage(name: str) -> Column[correctness.Score]:
    def take(score: correctness.Score) -> str | None:
        value = getattr(score, name)
        return None if value is None else correctness_text.metric_text(score, value)

    return Column(name.capitalize(), take, right_aligned=True)


_LEDGER: Sequence[Column[correctness.Score]] = (
    Column("Metric", lambda score: score.metric),
    *map(_stage, ("framework", "converted", "served")),
    Column("Limit", lambda score: correctness_text.tightest_text(score) or None, right_aligned=True),
    Column("Its source", lambda score: getattr(score.tightest_limit, "source", None)),
    Column("Verdict", lambda score: "kept" if score.passed else "not kept"),
)

_DISAGREEMENTS: Sequence[Column[correctness.Disagreement]] = (
    Column("Between", lambda pair: " and ".join(pair.between)),
    Column("Samples that differ", lambda pair: pair.count, COUNT),
    Column("Lost", lambda pair: pair.lost, COUNT),
    Column("Gained", lambda pair: pair.gained, COUNT),
    Column("Agreement", lambda pair: pair.agreement, AGREEMENT, with_unit=True),
    Column("Limit", lambda pair: pair.agreement_limit, AGREEMENT, with_unit=True),
    Column("Samples", lambda pair: phrases.first_of(pair.sample_ids, 10, count=pair.count) or None),
)


def _output(title: str, name: str) -> Column[correctness.OutputDifference]:
    by_kind = {"differing": AGREEMENT, "error": RELATIVE_ERROR}
    return Column(title, lambda row: cell_of(by_kind[row.kind], getattr(row, name)), right_aligned=True)


def _outputs_table(previous_stage: str, outputs: Sequence[correctness.OutputDifference]) -> Table:
    kinds = {"differing": "integers that differ", "error": "error"}
    columns: Sequence[Column[correctness.OutputDifference]] = (
        Column(f"Output, beside {previous_stage}", lambda output: f"{output.output}, {kinds[output.kind]}"),
        _output("Mean", "mean"),
        _output("Limit", "mean_limit"),
        _output("Largest, of the spread", "largest"),
        _output("Limit", "largest_limit"),
        Column("Sample", lambda output: output.sample or None),
    )
    return table(columns, outputs)


def _apart(gate: correctness.GateResult) -> str | None:
    if (answers := gate.answer_comparison) is None:
        return None
    return correctness_text.difference_text(answers) + correctness_text.answer_remarks(answers)


_GATES: Sequence[Column[correctness.GateResult]] = (
    Column("Without labels", lambda row: row.demand or row.gate),
    Column("Tried", lambda row: row.tried),
    Column("Requests", lambda row: row.requests, COUNT),
    Column("Apart", _apart, right_aligned=True),
    Column("Verdict", lambda row: row.fault or "passed"),
)


def accuracy_blocks(record: Publishable) -> list[Block]:
    """Whether the case is right: the conversion, the ledger stage by stage, and the gates."""
    conversion, accuracy = record.conversion, record.accuracy
    blocks: list[Block] = []
    if record.case.from_repository:
        blocks.append(
            "Served as it is: nothing was converted, and answers under load are held to the server's "
            "own to the same samples, one request at a time."
        )
    elif conversion is None:
        blocks.append("The converted model was not compared with the framework.")
    else:
        on = f"on {COUNT.text(conversion.samples)} samples"
        text = correctness_text.conversion_text(conversion)
        verdict = "passed" if conversion.passed else "failed"
        blocks.append(f"Converted model in process against the framework, {on}: {text}; {verdict}.")
        blocks.append(_outputs_table("the framework's", conversion.outputs))
    if accuracy is None or record.why_no_score:
        blocks.append(f"Accuracy: {correctness_text.no_score_text(record)}.")
    if accuracy is not None:
        samples, requests = COUNT.text(accuracy.samples), COUNT.text(accuracy.requests)
        blocks += [
            f"{samples} samples, sent in {requests} requests of mixed batch sizes with many in flight.",
            table(_LEDGER, accuracy.scores),
            table(_DISAGREEMENTS, accuracy.disagreements),
            _outputs_table("the same file in process", accuracy.outputs),
        ]
    return [*blocks, table(_GATES, record.gates)]
