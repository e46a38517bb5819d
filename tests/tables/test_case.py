"""The tables of one case, as values: which rows and columns they have, and what is in their cells."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.formats import all_formats
from reports.record import figures
from reports.record.schema import (
    GATES,
    SCHEMA,
    Case,
    CertifiedPercentile,
    ComposingModel,
    GpuUse,
    LatencyBudget,
    Load,
    Origin,
    Record,
    Start,
)
from reports.tables.case import (
    case_section,
    configuration_list,
    gates_table,
    parameters_table,
    scenario_section,
)
from reports.tables.points import (
    RESOURCES,
    budget_table,
    certified_table,
    comparison_table,
    composing_table,
    efficiency_section,
    points_table,
    resources_table,
)
from reports.tables.rendering import markdown
from reports.tables.summary import machine_blocks, serving_blocks
from reports.tables.table import Heading, Table
from reports.text.publishable import Publishable, publishable
from tests import samples
from tests.conftest import Reports

ROOT = Path(__file__).parents[2]
SAMPLE = publishable(samples.record())


def seen(*loads: Load, **changes: Any) -> Publishable:
    return publishable(samples.record(**({"loads": loads} if loads else {}), **changes))


def points(record: Publishable, scenario: str) -> Table:
    made = points_table(record, scenario)
    assert isinstance(made, Table)
    return made


# --- load points -------------------------------------------------------------------------------------------


def test_the_offline_rows_are_in_order_of_batch_with_published_decimals() -> None:
    assert points(SAMPLE, "offline").texts == [
        ["FP16", "TensorRT", "1", "491.5", "2.046", "2.111", "2.126", "2.031"],
        ["FP16", "TensorRT", "2", "811.8", "2.046", "2.111", "2.126", "2.031"],
        ["FP16", "TensorRT", "8", "1573.6", "2.046", "2.111", "2.126", "2.031"],
    ]


def test_the_online_rows_are_in_order_of_concurrency_with_every_component() -> None:
    components = ["0.000", "0.100", "0.200", "0.300", "0.400", "0.500", "0.600"]
    latencies = ["2.000", "2.046", "2.111", "2.126", "2.031"]
    assert points(SAMPLE, "online").texts == [
        ["16", "2543.7", *components, *latencies],
        ["32", "3166.7", *components, *latencies],
    ]


def test_a_latency_that_is_missing_leaves_its_cell_empty() -> None:
    load = samples.load("online", 16, 100, latency_ms={"p50": samples.estimate(2)}, components_ms={})
    assert points(seen(load), "online").texts == [["16", "100.0", *"-" * 7, "2.000", *"-" * 4]]


def test_a_rate_stands_in_place_of_a_concurrency() -> None:
    rated = samples.load("online", 0, 118.0, request_rate_per_s=120.0, arrivals="poisson")
    found = points(seen(samples.load("online", 4, 300.0), rated), "online")
    assert [row[0] for row in found.texts] == ["4", "120/s, poisson"]


def test_marked_points_have_a_star_and_their_reason() -> None:
    marked = samples.load("offline", 8, 200, marks=samples.marks("a pass was repeated", "damaged"))
    found = points(seen(samples.load("offline", 1, 100), marked), "offline")
    assert [row[3] for row in found.texts] == ["100.0", "200.0*"]
    assert found.remarks == ["batch 8: a pass was repeated; damaged"]


@pytest.mark.parametrize(
    ("record", "scenario", "said"),
    [
        (samples.random_weights(), "online", "No online load point has been measured."),
        (samples.record(conversion=None), "offline", "No throughput is shown: the converted model was not"),
    ],
)
def test_where_there_is_nothing_to_show_a_sentence_says_why(record: Record, scenario: str, said: str) -> None:
    assert str(points_table(publishable(record), scenario)).startswith(said)


USE = GpuUse(0.93, 5120.4, 251.26, 159.671, 1395.2, "counter")
INSTANCE = structs.replace(USE, energy_j_per_1000=None, power_w=None, utilisation=None)
TAKEN = ["159.7", "251.3", "93 %", "5120", "1395"]


@pytest.mark.parametrize(
    ("uses", "price", "titles", "rows"),
    [
        ((USE, USE), 3.6, [one.title for one in RESOURCES], [[*TAKEN, "2.08"], [*TAKEN, "1.04"]]),
        ((INSTANCE, None), None, ["GPU memory (MiB)", "SM clock (MHz)"], [["5120", "1395"], ["-", "-"]]),
        ((None, None), None, [], []),
    ],
    ids=["all", "a MIG slice", "nothing"],
)
def test_a_point_shows_what_it_took_and_no_column_without_a_figure(
    uses: Sequence[GpuUse | None], price: float | None, titles: list[str], rows: list[list[str]]
) -> None:
    sizes = ((1, 500.0), (8, 1000.0))
    loads = [
        samples.load("offline", size, rate, gpu=use) for (size, rate), use in zip(sizes, uses, strict=True)
    ]
    found = resources_table(seen(*loads, price_per_hour=price), "offline")

    assert found.titles[1:] == titles
    assert [row[1:] for row in found.texts] == rows
    assert not resources_table(
        seen(*loads, price_per_hour=3.6, accuracy=samples.failed_accuracy()), "offline"
    )


def test_a_cost_of_any_inferences_says_so() -> None:
    one = samples.random_weights(loads=(samples.load("offline", 8, 1000.0),), price_per_hour=3.6)
    assert resources_table(publishable(one), "offline").texts == [["batch 8", "1 (any)"]]


ENOUGH, TOO_FEW = CertifiedPercentile(2.126, 2.875, 1500, 0), CertifiedPercentile(3.25, None, 1500, 5136)


def test_a_percentile_has_its_bound_or_how_many_requests_are_missing() -> None:
    load = samples.load("offline", 8, 1000, certified={"p99": ENOUGH, "p99.9": TOO_FEW})
    (row,) = certified_table(seen(load), "offline").texts

    assert row == ["batch 8", "1500", "2.126", "2.875", "3.250", "5,136 requests too few"]
    assert not certified_table(seen(structs.replace(load, certified={"p99.9": TOO_FEW})), "offline")
    found = figures.of_load(load)
    assert (found["certified_p99_ms"], found.get("certified_p99.9_ms")) == (2.875, None)


def test_a_model_that_calls_others_shows_what_each_does_in_a_request() -> None:
    load = samples.load("online", 16, 1000, composing=(ComposingModel("tokens", 2.0, 0.5, 1.25),))
    assert composing_table(seen(load), "online").texts == [
        ["concurrency 16", "tokens", "2.00", "0.500", "1.250"]
    ]


def test_a_latency_budget_is_in_a_table_and_in_the_figures() -> None:
    load = samples.load("online", 16, 1000.0, budget=LatencyBudget("p99", 1.5, "agreed in May", "failed"))
    record = seen(load, samples.load("offline", 8, 1000.0))
    (row,) = budget_table([record]).texts

    assert row[1] == "online, concurrency 16"
    assert row[3:] == ["1.5 ms", "beyond", "agreed in May"]
    assert budget_table([record], "online") in scenario_section(record, "online")
    assert not budget_table([record], "offline")
    found = figures.of_load(load)
    assert (found["budget_p99_ms"], found["budget_verdict"]) == (1.5, "failed")


def test_a_point_beside_another_build_has_its_verdict_and_a_hidden_one_the_reason() -> None:
    load = samples.load("offline", 8, 1000.0, comparison=samples.comparison())
    right, wrong = seen(load), seen(load, conversion=None)
    shown, hidden = comparison_table([right, wrong]).texts

    assert shown[1:4] == ["offline, batch 8", "0.90 (0.88 to 0.92)", "HEAD~1"]
    assert shown[4].startswith("slower than the 3 % allowed")
    assert hidden[1:] == ["offline, batch 8", "-", "HEAD~1", wrong.no_speed]


def test_gates_have_a_row_each_in_their_order() -> None:
    found = [samples.gate(name) for name in reversed(GATES)]
    rows = gates_table([*found, samples.gate("malformed", "answered")]).texts

    assert [row[0] for row in rows if row[4] == "passed"] == list(GATES.values())
    assert len(rows) == len(GATES) + 1


def test_serving_cost_names_the_peak_s_share_and_its_digits() -> None:
    one = samples.efficiency(flops_per_inference=8.2e9, peak_flops_per_s=samples.estimate(18e12))
    _, found = efficiency_section(seen(efficiency=(one,)))
    assert isinstance(found, Table)
    assert found.texts == [
        ["offline, batch 8", "1573.6", "1748.4", "8", "90 % (88 to 92)", "0.508", "8.2", "18000", "72 %"]
    ]


# --- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "scenario", "wanted"),
    [
        ((64, 128), "online", ["1 µs", "64 128"]),
        ((), "online", ["1 µs", "none"]),
        ((64,), "offline", ["-", "-"]),
    ],
)
def test_parameters_are_the_published_ones_and_offline_the_batcher_has_none(
    sizes: tuple[int, ...], scenario: str, wanted: list[str]
) -> None:
    deployment = structs.replace(samples.record().deployment, preferred_batch_sizes=sizes)
    rows = {name: value for name, value in parameters_table(seen(deployment=deployment), scenario).texts}  # noqa: C416 - of lists, which mypy does not take for pairs

    assert list(rows)[:2] == ["Max Batch Size", "Number of model instances"]
    assert [rows["Triton Max Queue Delay"], rows["Triton Preferred Batch Sizes"]] == wanted


def lines(record: Publishable, scenario: str = "offline") -> dict[str, str]:
    """The lines of a configuration by their names."""
    pairs = (line.split(": ", 1) for line in configuration_list(record, scenario).lines)
    return {name: said for name, said in pairs}  # noqa: C416 - of lists, which mypy does not take for pairs


def test_the_configuration_names_what_was_served_and_by_what() -> None:
    assert lines(SAMPLE) == {
        "Case": "`a40-resnet50-onnx-trt-fp16`",
        "GPU": "NVIDIA A40",
        "Backend": "ONNX Runtime, in Triton's Python backend",
        "Backend accelerator": "TensorRT",
        "Precision": "FP16",
        "Model format": "ONNX",
        "Options": "warm-up",
        "Served by": "embedded server, Triton 2.51.0, python backend, shared memory: system",
        "Accuracy": "on 500 samples, top-1 96.25 % (floor 95.9 %), framework 96.4 %, converted 96.4 %; "
        "decisions that differ: 1 between converted and served (1 lost, 0 gained)",
        "Measured": "2026-03-04",
    }


STARTS = (Start("offline", 0.41, 2.53, 12.51), Start("online", None, 1.0, 8.0))
WARMED = (samples.load("offline", 8, 200, warm_up_s=0.3), samples.load("offline", 1, 200, warm_up_s=0.02))
NATIVE = structs.replace(samples.record().serving, backend="onnxruntime")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("changes", "scenario", "name", "wanted"),
    [
        ({"tf32": True}, "offline", "Options", "warm-up, FP32 in TF32"),
        ({"tf32": False}, "offline", "Options", "warm-up, FP32 without TF32"),
        ({"serving": NATIVE}, "offline", "Backend", "ONNX Runtime"),
        (
            {"starts": STARTS, "loads": WARMED},
            "offline",
            "Start",
            "server 0.41 s, model load 2.5 s, first request 12.510 ms, warm-up under load 0.30 s at most",
        ),
        (
            {"starts": STARTS, "loads": WARMED},
            "online",
            "Start",
            "model load 1.0 s, first request 8.000 ms",
        ),
    ],
)
def test_a_line_of_the_configuration(changes: dict[str, Any], scenario: str, name: str, wanted: str) -> None:
    if "tf32" in changes:
        changes = {"deployment": structs.replace(samples.record().deployment, **changes)}
    assert lines(seen(**changes), scenario)[name] == wanted


@pytest.mark.parametrize(
    ("mnemonic", "accelerator", "title"),
    [
        ("ts-trace", None, "PyTorch"),
        ("onnx", None, "ONNX Runtime"),
        ("onnx", "trt", "ONNX Runtime TensorRT"),
        ("trt", None, "NVIDIA TensorRT"),
    ],
)
def test_formats_have_their_published_names(mnemonic: str, accelerator: str | None, title: str) -> None:
    format_ = next(one for one in all_formats() if one.mnemonic == mnemonic)
    build = structs.replace(samples.record().build, format=format_.label, engine=format_.engine)
    record = seen(case=Case("a40", "resnet50", mnemonic, accelerator, "fp16"), build=build)

    headings = [block.text for block in case_section(record) if isinstance(block, Heading)]
    assert headings == [f"{one}: NVIDIA A40, {title} with FP16" for one in ("Offline", "Online")]
    assert lines(record)["Model format"] == format_.label


def test_a_cpu_case_is_headed_by_its_cpu_even_on_a_machine_with_a_gpu() -> None:
    section = markdown(case_section(publishable(samples.random_weights())))
    assert section.startswith("#### Offline: AMD EPYC 7742 64-Core Processor, PyTorch with FP32\n")
    assert "NVIDIA" not in section


# --- machines and servers ----------------------------------------------------------------------------------


def on(host: str) -> list[Load]:
    origin = Origin("run-1", host, (), "a" * 40, True, "2026-03-04T05:06:07+00:00")
    return [structs.replace(load, origin=origin) for load in samples.record().loads]


OTHER = structs.replace(samples.record().machine, gpu=None, gpu_driver=None, cores=2)
GPUS = structs.replace(samples.record().machine, gpu_uuids=("GPU-1", "GPU-2"))


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([samples.record(), samples.random_weights()], ["Measured on NVIDIA A40 (driver 550.54.15), AMD EPYC"]),
        (
            [samples.record(), samples.random_weights(machine=OTHER)],
            ["more than one machine", "\n- `a40-resnet50-onnx-trt-fp16`: NVIDIA A40", ": AMD EPYC 7742 64-Core Processor, 2 cores,"],
        ),
        ([samples.record(machine=GPUS)], [" Used was GPU-1, GPU-2."]),
        ([samples.record(machine=GPUS), samples.random_weights()], ["Used were:", "`: GPU-1, GPU-2."]),
        ([samples.record(loads=on("node7"), accuracy=None)], ["Measured on node7; commit "]),
        ([samples.record(loads=on(""), accuracy=None)], ["Measured at commit "]),
    ],
    ids=["one", "several", "GPUs", "GPUs by case", "a host", "no host"],
)  # fmt: skip
def test_machines_are_a_sentence_where_they_agree_and_a_list_by_case_where_not(
    records: list[Record], parts: list[str]
) -> None:
    said = markdown(machine_blocks(records))
    assert all(part in said for part in parts), said
    assert ("more than one machine" in said) == ("more than one machine" in parts)


def test_the_server_s_image_and_versions_are_named() -> None:
    serving = samples.record().serving
    assert serving is not None
    serving = structs.replace(
        serving, image="tritonserver:24.10-py3", image_digest="sha256:ab", versions={"onnxruntime": "1.19.2"}
    )
    said = markdown(serving_blocks([samples.record(serving=serving), samples.random_weights(serving=None)]))
    for part in ("tritonserver:24.10-py3@sha256:ab", "onnxruntime 1.19.2", "`: not served yet."):
        assert part in said


# --- the command -------------------------------------------------------------------------------------------


def test_the_command_prints_the_summary_and_each_case_by_target(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    other = samples.record(case=Case("a40", "bert", "trt", None, "fp16"))
    samples.store(tmp_path, samples.random_weights(), samples.record(), other)
    said = printed("tables", "--results", tmp_path).splitlines()
    assert [line for line in said if line.startswith(("# ", "## ", "### "))] == [
        "# Summary",
        "## a40",
        "### a40-bert-trt-fp16",
        "### a40-resnet50-onnx-trt-fp16",
        "## cpu",
        "### cpu-nnunet-ts-trace-fp32",
    ]
    assert "resnet50" not in printed("tables", "-k", "nnunet", "--results", tmp_path)


def test_what_selects_nothing_names_what_there_is(tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "Measure some: .venv/bin/tox run -e benchmarks" in refused("tables", "--results", tmp_path)
    samples.store(tmp_path, samples.record())
    said = refused("tables", "-k", "bert", "--results", tmp_path)
    assert "'bert'" in said
    assert "a40-resnet50-onnx-trt-fp16" in said


def test_a_broken_record_is_one_line(tmp_path: Path, reports: Reports) -> None:
    samples.store(tmp_path, samples.record())
    (tmp_path / "a40" / "broken.json").write_text(f'{{"schema": {SCHEMA}, "case": {{}}}}')
    message = reports("tables", "--results", tmp_path).err
    assert f" {tmp_path}/a40/broken.json: " in message
    assert message.count("\n") == 1


def test_without_a_command_there_is_help(printed: Callable[..., str]) -> None:
    assert "-m reports [-h] COMMAND" in printed()


def test_a_terminal_without_the_signs_still_gets_its_tables(tmp_path: Path) -> None:
    samples.store(tmp_path, samples.record())
    done = subprocess.run(
        [sys.executable, "-m", "reports", "tables", "--results", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "3166.7 ? 2.0 %" in done.stdout
