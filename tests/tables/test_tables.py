"""The tables: the published columns, honest numbers, and no speed for a case that is not right."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fixtures.formats import all_formats
from reports.record.schema import SCHEMA, Case, Disagreement, Limit, Origin, Start
from reports.text import correctness
from reports.text.publishable import publishable
from tests import rendered as tables
from tests import samples
from tests.conftest import Reports
from tests.markdown_tables import cells

ROOT = Path(__file__).parents[2]
SAMPLE = publishable(samples.record())


def test_the_offline_rows_are_in_order_of_batch_with_published_decimals() -> None:
    assert cells(tables.points_table(SAMPLE, "offline"))[1:] == [
        ["FP16", "TensorRT", "1", "491.5", "2.046", "2.111", "2.126", "2.031"],
        ["FP16", "TensorRT", "2", "811.8", "2.046", "2.111", "2.126", "2.031"],
        ["FP16", "TensorRT", "8", "1573.6", "2.046", "2.111", "2.126", "2.031"],
    ]


def test_the_online_rows_are_in_order_of_concurrency_with_every_component() -> None:
    components = ["0.000", "0.100", "0.200", "0.300", "0.400", "0.500", "0.600"]
    latencies = ["2.000", "2.046", "2.111", "2.126", "2.031"]
    assert cells(tables.points_table(SAMPLE, "online"))[1:] == [
        ["16", "2543.7", *components, *latencies],
        ["32", "3166.7", *components, *latencies],
    ]


def test_a_latency_that_is_missing_leaves_its_cell_empty() -> None:
    load = samples.load("online", 16, 100, latency_ms={"p50": samples.estimate(2)}, components_ms={})
    assert cells(tables.points_table(publishable(samples.record(loads=(load,))), "online"))[1] == [
        "16",
        "100.0",
        *"-" * 7,
        "2.000",
        *"-" * 4,
    ]


def test_a_scenario_without_points_says_so() -> None:
    assert (
        tables.points_table(publishable(samples.random_weights()), "online")
        == "No online load point has been measured."
    )


def test_points_with_notes_are_marked_and_the_notes_listed() -> None:
    loads = (
        samples.load("offline", 1, 100),
        samples.load("offline", 8, 200, marks=samples.marks("a pass was repeated", "its file was damaged")),
    )
    table = tables.points_table(publishable(samples.record(loads=loads)), "offline")
    assert [row[3] for row in cells(table)[1:]] == ["100.0", "200.0*"]
    assert table.endswith("\n\nMarked points (*):\n\n- batch 8: a pass was repeated; its file was damaged")
    assert "*" not in tables.points_table(SAMPLE, "offline")


def test_online_parameters_are_the_published_ones() -> None:
    assert cells(tables.parameters_table(SAMPLE, "online")) == [
        ["Parameter Name", "Parameter Value"],
        ["Max Batch Size", "128"],
        ["Number of model instances", "1"],
        ["Triton Max Queue Delay", "1 µs"],
        ["Triton Preferred Batch Sizes", "64 128"],
    ]


def test_offline_the_dynamic_batcher_has_no_parameters_and_the_section_says_why() -> None:
    rows = dict(cells(tables.parameters_table(SAMPLE, "offline")))
    assert rows["Triton Max Queue Delay"] == rows["Triton Preferred Batch Sizes"] == "-"
    assert "The dynamic batcher is off" in tables.case_section(SAMPLE).partition("#### Online")[0]


def test_no_preferred_sizes_are_called_none() -> None:
    deployment = dataclasses.replace(samples.record().deployment, preferred_batch_sizes=())
    rows = dict(cells(tables.parameters_table(publishable(samples.record(deployment=deployment)), "online")))
    assert rows["Triton Preferred Batch Sizes"] == "none"


def test_the_configuration_names_what_was_served_and_by_what() -> None:
    assert tables.configuration_list(SAMPLE, "offline").splitlines() == [
        "- Case: `a40-resnet50-onnx-trt-fp16`",
        "- GPU: NVIDIA A40",
        "- Backend: ONNX Runtime, in Triton's Python backend",
        "- Backend accelerator: TensorRT",
        "- Precision: FP16",
        "- Model format: ONNX",
        "- Options: warm-up",
        "- Served by: embedded server, Triton 2.51.0, python backend, shared memory: system",
        "- Accuracy: on 500 samples, top-1 96.25 % (floor 95.9 %), framework 96.4 %, converted 96.4 %; "
        "decisions that differ: 1 between converted and served (1 lost, 0 gained)",
        "- Measured: 2026-03-04",
    ]


@pytest.mark.parametrize(
    ("tf32", "said"),
    [(None, "warm-up"), (True, "warm-up, FP32 in TF32"), (False, "warm-up, FP32 without TF32")],
)
def test_the_options_say_whether_fp32_was_computed_in_tf32(tf32: bool | None, said: str) -> None:
    deployment = dataclasses.replace(samples.record().deployment, tf32=tf32)
    text = tables.configuration_list(publishable(samples.record(deployment=deployment)), "offline")
    assert f"- Options: {said}\n" in text


@pytest.mark.parametrize(
    ("mnemonic", "accelerator", "title"),
    [
        ("ts-trace", None, "PyTorch"),
        ("ts-script", None, "PyTorch"),
        ("onnx", None, "ONNX Runtime"),
        ("onnx", "trt", "ONNX Runtime TensorRT"),
        ("trt", None, "NVIDIA TensorRT"),
    ],
)
def test_formats_have_their_published_names(mnemonic: str, accelerator: str | None, title: str) -> None:
    format_ = next(one for one in all_formats() if one.mnemonic == mnemonic)
    build = dataclasses.replace(samples.record().build, format=format_.label, engine=format_.engine)
    case = Case("a40", "resnet50", mnemonic, accelerator, "fp16")
    section = tables.case_section(publishable(samples.record(case=case, build=build)))
    assert section.startswith(f"#### Offline: NVIDIA A40, {title} with FP16\n")
    assert f"\n#### Online: NVIDIA A40, {title} with FP16\n" in section
    assert f"\n- Model format: {format_.label}\n" in section


def test_a_native_backend_is_named_without_the_python_one() -> None:
    serving = samples.record().serving
    assert serving is not None
    serving = dataclasses.replace(serving, backend="onnxruntime")
    assert "\n- Backend: ONNX Runtime\n" in tables.configuration_list(
        publishable(samples.record(serving=serving)), "offline"
    )


def test_a_cpu_case_is_headed_by_its_cpu_even_on_a_machine_with_a_gpu() -> None:
    section = tables.case_section(publishable(samples.random_weights()))
    assert section.startswith("#### Offline: AMD EPYC 7742 64-Core Processor, PyTorch with FP32\n")
    assert "\n- CPU: AMD EPYC" in section
    assert "NVIDIA" not in section


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"accuracy": samples.failed_accuracy()},
            "served top-1 93.1 % is below its floor of 94.0 % (published).",
        ),
        (
            {"accuracy": None, "accuracy_missing": "no data set was given\n  (--data DIR)"},
            "accuracy was not measured: no data set was given (--data DIR).",
        ),
        ({"accuracy": None}, "accuracy was not measured."),
        (
            {"accuracy": samples.accuracy(passed=False)},
            "the accuracy check failed (top-1 96.25 % (floor 95.9 %), framework 96.4 %, converted 96.4 %).",
        ),
        (
            {"conversion": samples.failed_conversion()},
            "the converted model differs from the framework (relative error 0.25, limit 0.01; "
            "agreement 90.00 %, limit 99.00 %).",
        ),
        ({"conversion": None}, "the converted model was not compared with the framework."),
    ],
    ids=["score", "no score", "no reason", "check", "conversion", "no conversion"],
)
def test_a_failed_case_says_why_in_a_sentence(changes: dict[str, Any], reason: str) -> None:
    one = samples.record(**changes)
    assert tables.points_table(publishable(one), "offline") == f"No throughput is shown: {reason}"
    assert f"- a: No throughput is shown: {reason}" in tables.summary_table([publishable(one)])


def test_a_case_may_fail_for_two_reasons() -> None:
    one = samples.record(conversion=None, accuracy=samples.failed_accuracy())
    assert publishable(one).no_speed == (
        "No throughput is shown: the converted model was not compared with the framework, "
        "and served top-1 93.1 % is below its floor of 94.0 % (published)."
    )


def test_a_second_metric_above_its_ceiling_is_named() -> None:
    error = samples.score(
        metric="mel MSE", better="lower", served=0.07, limits=(Limit(0.06, "recipe"),), passed=False
    )
    ledger = samples.accuracy(samples.score(), error, passed=False)
    assert publishable(samples.record(accuracy=ledger)).no_speed == (
        "No throughput is shown: served mel MSE 0.07 is above its ceiling of 0.06 (recipe)."
    )


def test_a_server_that_decides_otherwise_shows_no_speed_even_with_random_weights() -> None:
    differ = Disagreement(("converted", "served"), 9, 0, 0, (), 0.91, 0.99)
    ledger = samples.accuracy(scores=(), disagreements=(differ,), passed=False)
    assert publishable(samples.random_weights(accuracy=ledger)).no_speed == (
        "No throughput is shown: converted and served decide differently (agreement 91.00 %, limit 99.00 %)."
    )


def test_random_weights_with_a_ledger_of_decisions_have_no_score_but_a_speed() -> None:
    one = samples.random_weights(accuracy=samples.accuracy(scores=()))
    assert publishable(one).no_speed == ""
    assert correctness.main_score(one) is None


def test_a_score_just_below_its_floor_does_not_look_equal_to_it() -> None:
    below = samples.score(served=0.939996, limits=(Limit(0.94, "published"),), passed=False)
    ledger = samples.accuracy(below, passed=False)
    why = publishable(samples.record(accuracy=ledger)).no_speed
    assert why is not None
    assert "served top-1 93.9996 % is below its floor of 94.0000 %" in why


def test_one_machine_is_one_sentence() -> None:
    assert tables.machine_sentence([samples.record(), samples.random_weights()]) == (
        "Measured on NVIDIA A40 (driver 550.54.15), AMD EPYC 7742 64-Core Processor, 16 cores, "
        "126 GiB memory; Linux, glibc 2.36; python 3.11.7, torch 2.13.0."
    )


@pytest.mark.parametrize(
    ("host", "said"), [("node7", "Measured on node7; commit "), ("", "Measured at commit ")]
)
def test_where_the_host_is_left_out_the_sentence_still_reads(host: str, said: str) -> None:
    origin = Origin("run-1", host, (), "a" * 40, True, "2026-03-04T05:06:07+00:00")
    loads = [dataclasses.replace(load, origin=origin) for load in samples.record().loads]
    assert said in tables.machine_sentence([samples.record(loads=loads, accuracy=None)])


def test_several_machines_are_a_list_by_case() -> None:
    other = dataclasses.replace(samples.record().machine, gpu=None, gpu_driver=None, cores=2)
    sentence = tables.machine_sentence([samples.record(), samples.random_weights(machine=other)])
    assert "\n- `a40-resnet50-onnx-trt-fp16`: NVIDIA A40 (driver" in sentence
    assert "\n- `cpu-nnunet-ts-trace-fp32`: AMD EPYC 7742 64-Core Processor, 2 cores," in sentence


def test_the_command_prints_the_summary_and_each_case_by_target(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    other = samples.record(case=Case("a40", "bert", "trt", None, "fp16"))
    samples.store(tmp_path, samples.random_weights(), samples.record(), other)
    lines = printed("tables", "--results", tmp_path).splitlines()
    assert [line for line in lines if line.startswith(("# ", "## ", "### "))] == [
        "# Summary",
        "## a40",
        "### a40-bert-trt-fp16",
        "### a40-resnet50-onnx-trt-fp16",
        "## cpu",
        "### cpu-nnunet-ts-trace-fp32",
    ]


def test_the_command_selects_by_a_part_of_the_name(tmp_path: Path, printed: Callable[..., str]) -> None:
    samples.store(tmp_path, samples.random_weights(), samples.record())
    text = printed("tables", "-k", "nnunet", "--results", tmp_path)
    assert "cpu-nnunet-ts-trace-fp32" in text
    assert "resnet50" not in text


def test_a_selection_of_nothing_names_what_there_is(tmp_path: Path, refused: Callable[..., str]) -> None:
    samples.store(tmp_path, samples.record())
    text = refused("tables", "-k", "bert", "--results", tmp_path)
    assert "no case has 'bert' in its name. There are: a40-resnet50-onnx-trt-fp16" in text


def test_without_records_the_command_says_what_to_run(tmp_path: Path, refused: Callable[..., str]) -> None:
    why = "no records (TARGET/CASE.json). Measure some: .venv/bin/tox run -e benchmarks"
    assert refused("tables", "--results", tmp_path) == f"error: {tmp_path}: {why}\n"


def test_a_broken_record_is_one_line(tmp_path: Path, reports: Reports) -> None:
    samples.store(tmp_path, samples.record())
    (tmp_path / "a40" / "broken.json").write_text(json.dumps({"schema": SCHEMA, "case": {}}))
    message = reports("tables", "--results", tmp_path).err
    assert f" {tmp_path}/a40/broken.json: missing key " in message
    assert message.count("\n") == 1


def test_without_a_command_there_is_help(printed: Callable[..., str]) -> None:
    text = printed()
    for part in ("usage: python -m reports", "tables", "readme"):
        assert part in text


def run_bare(arguments: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the standard library alone: -S leaves installed packages out."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "reports", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )


def test_the_command_needs_no_package(tmp_path: Path) -> None:
    samples.store(tmp_path, samples.record())
    done = run_bare(["tables", "--results", str(tmp_path)], PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3166.7 ± 2.0 %" in done.stdout


def test_a_terminal_without_the_signs_still_gets_its_tables(tmp_path: Path) -> None:
    samples.store(tmp_path, samples.record())
    done = run_bare(["tables", "--results", str(tmp_path)], PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3166.7 ? 2.0 %" in done.stdout


def test_what_the_start_took_is_shown() -> None:
    loads = (samples.load("offline", 8, 200, warm_up_s=0.3), samples.load("offline", 1, 200, warm_up_s=0.02))
    starts = (Start("offline", 0.41, 2.53, 12.51), Start("online", None, 1.0, 8.0))

    offline, online = (
        tables.configuration_list(publishable(samples.record(loads=loads, starts=starts)), scenario)
        for scenario in ("offline", "online")
    )

    assert (
        "\n- Start: server 0.41 s, model load 2.5 s, first request 12.510 ms, warm-up under load 0.30 s at most\n"
        in offline
    )
    assert "\n- Start: model load 1.0 s, first request 8.000 ms\n" in online


def test_a_rate_stands_in_place_of_a_concurrency() -> None:
    load = samples.load("online", 0, 118.0, request_rate_per_s=120.0, arrivals="poisson")

    table = tables.points_table(
        publishable(samples.record(loads=(samples.load("online", 4, 300.0), load))), "online"
    )

    assert [line.split("|")[1].strip() for line in table.splitlines()[2:4]] == ["4", "120/s, poisson"]
