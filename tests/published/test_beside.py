"""Measured beside published: like with like, the right row, honest ratios, and nothing left out in silence."""

import dataclasses
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

from reports import published
from reports.__main__ import main
from reports.published.beside import document
from reports.published.joined import COLUMNS, joined_row
from reports.published.joined import joined as joined_matches
from reports.published.matching import match, published_ratio
from reports.record import schema
from reports.record.schema import Accuracy, Case, Deployment, Record, Score, Serving
from reports.words.shown import shown
from tests import samples

NATIVE = Serving("docker", "2.51.0", "onnxruntime", "system")
A40, A100 = "NVIDIA A40", "NVIDIA DGX A100 (1x A100 80GB)"
V100, T4 = "NVIDIA DGX-1 (1x V100 32GB)", "NVIDIA T4"


def case_on(name: str, *loads: schema.Load, **changes: Any) -> Record:
    """A case that holds; `name` is `target model format accelerator precision`, `-` for no accelerator."""
    target, model, format_, accelerator, precision = name.split()
    gpu = None if target == "cpu" else f"NVIDIA {target.upper()}"
    fields: dict[str, Any] = {
        "case": Case(target, model, format_, None if accelerator == "-" else accelerator, precision),
        "machine": dataclasses.replace(samples.record().machine, gpu=gpu),
        "serving": NATIVE,
        "loads": loads or (samples.load("offline", 8, 1000),),
    }
    return samples.record(**(fields | changes))


def latencies(**values: float) -> dict[str, schema.Estimate]:
    return {name: samples.estimate(value) for name, value in values.items()}


def joined(*records: Record, other_formats: bool = False) -> pd.DataFrame:
    return joined_matches(match([shown(one) for one in records], other_formats))


def written(*records: Record, other_formats: bool = False) -> str:
    return document(match([shown(one) for one in records], other_formats))


def cells(text: str) -> list[list[str]]:
    """The rows of every markdown table in a text, headers and rules left out."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows]
    return [row for row in split if row[0] != "Load point" and not row[0].startswith("---")]


def titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def line_with(part: str, text: str) -> str:
    (found,) = [line for line in text.splitlines() if part in line]
    return found


def store(results: Path, *records: Record) -> list[str]:
    """Write the records, and give the arguments that set them beside the published."""
    return ["published", "--results", str(samples.store(results, *records))]


# The numbers.


def test_ratios_are_measured_over_published() -> None:
    """The row of the source: A40, offline, batch 8: 1573.6 per second, p99 5.636 ms, average 5.078 ms."""
    load = samples.load("offline", 8, 3147.2, latency_ms=latencies(p99=2.818, avg=10.156, p90=1))
    (row,) = joined(case_on("a40 resnet50 onnx trt fp16", load)).to_dict("records")
    assert row["throughput_published_per_s"] == 1573.6
    assert (row["latency_p99_published_ms"], row["latency_avg_published_ms"]) == (5.636, 5.078)
    assert [row[f"throughput_ratio{part}"] for part in ("_low", "", "_high")] == pytest.approx(
        [1.96, 2.0, 2.04]
    )
    assert [row[f"latency_p99_ratio{part}"] for part in ("_low", "", "_high")] == pytest.approx(
        [0.49, 0.5, 0.51]
    )
    assert row["latency_avg_ratio"] == pytest.approx(2)


def test_a_table_shows_both_numbers_and_their_ratio_by_scenario_and_size() -> None:
    text = written(
        case_on(
            "a40 resnet50 onnx trt fp16",
            samples.load("online", 32, 6333.4, latency_ms=latencies(p99=29.434, avg=5.05)),
            samples.load("offline", 8, 3147.2, latency_ms=latencies(p99=2.818, avg=10.156)),
            samples.load("offline", 1, 4.915, latency_ms=latencies(p99=2126, avg=101.55)),
        )
    )
    assert cells(text) == [
        [
            *("offline, batch 1", "4.92", "491.5", "0.010 (0.010 to 0.010)"),
            *("2126.000", "2.126", "1000", "101.550", "2.031", "50.0"),
        ],
        [
            *("offline, batch 8", "3147.2", "1573.6", "2.00 (1.96 to 2.04)"),
            *("2.818", "5.636", "0.50", "10.156", "5.078", "2.00"),
        ],
        [
            *("online, concurrency 32", "6333.4", "3166.7", "2.00 (1.96 to 2.04)"),
            *("29.434", "14.717", "2.00", "5.050", "10.1", "0.50"),
        ],
    ]
    assert "the measured 95 % interval over the published value" in text


def test_a_latency_that_was_not_measured_has_no_ratio() -> None:
    load = samples.load("offline", 8, 1573.6, latency_ms=latencies(avg=5.078))
    assert cells(written(case_on("a40 resnet50 onnx trt fp16", load)))[0][4:] == [
        *("-", "5.636", "-"),
        *("5.078", "5.078", "1.00"),
    ]


def test_points_with_notes_are_marked_and_the_notes_listed() -> None:
    load = samples.load("offline", 8, 1000, marks=samples.marks("the client was saturated"))
    one = case_on("a40 resnet50 onnx trt fp16", samples.load("offline", 1, 100), load)
    text = written(one)
    assert [row[1] for row in cells(text)] == ["100.0", "1000.0*"]
    assert "\n\nMarked points (*):\n\n- offline, batch 8: the client was saturated\n\n" in text
    assert joined(one)["notes"].dropna().tolist() == ["the client was saturated"]


@pytest.mark.parametrize(
    ("name", "load", "ratio"),
    [
        ("a40 resnet50 onnx trt fp16", samples.load("offline", 8, 3147.2), 2.0),
        ("a40 resnet50 onnx trt fp16", samples.load("offline", 3, 3147.2), None),
        ("a40 resnet50 onnx trt fp16", samples.load("offline", 8, 3147.2, request_rate_per_s=9.0), None),
        ("a40 resnet50 onnx - fp16", samples.load("offline", 8, 3147.2), None),
        ("h100 resnet50 onnx trt fp16", samples.load("offline", 8, 3147.2), None),
        ("cpu resnet50-micro onnx - fp32", samples.load("offline", 8, 3147.2), None),
    ],
    ids=["alike", "another point", "at a rate", "another format", "another GPU", "another model"],
)
def test_only_what_was_published_for_the_same_gpu_and_point_has_one_ratio(
    name: str, load: schema.Load, ratio: float | None
) -> None:
    found = published_ratio(shown(case_on(name, load)), load)
    if ratio is None:
        assert found is None
    else:
        assert found is not None
        assert (found.low, found.value, found.high) == pytest.approx((ratio * 0.98, ratio, ratio * 1.02))


# The join.


def test_every_published_row_stands_beside_a_case_measured_just_so() -> None:
    """Names of formats and accelerators lead each of the 488 rows to one case, and each case to its rows."""
    figures = published.load()
    implied = {"ts-trace", "ts-script", "tf-trt"}
    records = []
    names = ["gpu", "model", "format", "accelerator", "precision"]
    for key, rows in figures.groupby(names, dropna=False):
        gpu, model, format_, accelerator, precision = cast(tuple[Any, ...], key)
        inside = format_ in implied or pd.isna(accelerator)
        loads = [
            samples.load(
                row["scenario"],
                row["batch"] if row["scenario"] == "offline" else row["concurrency"],
                row["throughput_per_s"],
                latency_ms=latencies(p99=row["latency_p99_ms"], avg=row["latency_avg_ms"]),
            )
            for _, row in rows.iterrows()
        ]
        records.append(
            case_on(f"{gpu} {model} {format_} {'-' if inside else accelerator} {precision}", *loads)
        )
    rows = joined(*records)
    assert len(rows) == len(figures) == 488
    for name in ("throughput", "latency_p99", "latency_avg"):
        assert rows[f"{name}_ratio"].tolist() == pytest.approx([1] * 488)
    assert rows["same_gpu"].all()
    assert rows["same_format"].all()
    assert not rows.duplicated(["published_source", "published_table", "batch", "concurrency"]).any()


@pytest.mark.parametrize(
    ("name", "throughput_per_s"),
    [
        ("v100 nnunet ts-script - fp16", 20.3),
        ("v100 nnunet ts-script - fp32", 10.3),
        ("a40 fastpitch ts-trace - fp16", 81.8),
        ("a40 resnet50-tf tf-trt - fp16", 329.5),
        ("a30 bert-dist4l onnx - fp16", 830.0),
        ("a30 bert-dist4l onnx trt fp16", 1219.0),
        ("a30 bert-dist4l trt - fp16", 1214.0),
        ("a30 bert-dist4l ts-trace - fp16", 558.0),
    ],
)
def test_a_case_meets_the_row_of_its_own_format_accelerator_and_precision(
    name: str, throughput_per_s: float
) -> None:
    (row,) = joined(case_on(name, samples.load("offline", 1, 100))).to_dict("records")
    assert row["throughput_published_per_s"] == throughput_per_s
    assert (row["same_gpu"], row["same_format"]) == (True, True)


def test_a_scenario_is_not_the_other_at_the_same_batch_and_concurrency() -> None:
    """nnU-Net has online points from concurrency 1: offline batch 1 is the same request load, and another row."""
    loads = (samples.load("offline", 1, 100), samples.load("online", 1, 100))
    rows = joined(case_on("v100 nnunet ts-script - fp16", *loads)).set_index("scenario")
    figures = rows["throughput_published_per_s"]
    assert figures["offline"] == 20.3
    assert figures["online"] != 20.3


def test_a_published_gpu_is_compared_with_itself_alone() -> None:
    one = case_on("a100 nnunet ts-script - fp16", samples.load("offline", 1, 52.2))
    text = written(one)
    assert joined(one)["published_gpu"].tolist() == ["a100"]
    assert f"Measured on NVIDIA A100; published on {A100}.\n" in text
    assert "other hardware" not in text
    assert titles(text)[1:] == ["## a100-nnunet-ts-script-fp16", f"### Beside {A100}"]


@pytest.mark.parametrize("target", ["h200", "a30", "cpu", "gpu"])
def test_another_device_is_compared_with_every_published_gpu(target: str) -> None:
    """A30 is published for BERT, and not for nnU-Net."""
    one = case_on(f"{target} nnunet ts-script - fp16", samples.load("offline", 1, 50))
    rows = joined(one)
    assert dict(zip(rows["published_gpu"], rows["throughput_published_per_s"], strict=True)) == {
        "v100": 20.3,
        "a40": 22.2,
        "t4": 9.1,
        "a100": 26.1,
    }
    assert not rows["same_gpu"].any()
    text = written(one)
    device = f"NVIDIA {target.upper()}" if target != "cpu" else "AMD EPYC 7742 64-Core Processor"
    assert f"Measured on {device}; published on {V100}, {A40}, {T4}, {A100}. It is other hardware" in text
    assert [title for title in titles(text) if title.startswith("### ")] == [
        f"### Beside {label}" for label in (V100, A40, T4, A100)
    ]
    assert f"- Differs: hardware {device}, published {A40}; " in text


def test_a_gpu_without_a_name_goes_by_its_target() -> None:
    one = case_on("a40 resnet50 onnx trt fp16")
    one = dataclasses.replace(one, machine=dataclasses.replace(one.machine, gpu=None))
    assert "Measured on A40; published on NVIDIA A40." in written(one)


# What is not alike.


def test_another_format_is_not_compared_unless_asked_for() -> None:
    one = case_on("a40 resnet50 onnx - fp32")
    assert joined(one).empty
    assert written(one).split("\n\n") == [
        "# Measured beside published",
        "## Not compared",
        "- `a40-resnet50-onnx-fp32`: NVIDIA published resnet50 as onnx trt fp16, not as onnx fp32. "
        "With --other-formats they are compared all the same.",
    ]


def test_another_format_says_so_wherever_its_numbers_stand() -> None:
    one = case_on("a40 resnet50 onnx - fp32")
    (row,) = joined(one, other_formats=True).to_dict("records")
    assert row["throughput_published_per_s"] == 1573.6
    assert row["same_gpu"]
    assert not row["same_format"]
    assert (row["format"], row["accelerator"], row["precision"]) == ("onnx", None, "fp32")
    assert [row[f"published_{name}"] for name in ("format", "accelerator", "precision")] == [
        *("onnx", "trt", "fp16")
    ]
    assert row["differences"] == "format onnx fp32, published onnx trt fp16"
    text = written(one, other_formats=True)
    assert "NVIDIA did not publish onnx fp32: what follows is not alike." in text
    assert titles(text)[2] == "### Beside NVIDIA A40, unlike: measured onnx fp32, published onnx trt fp16"
    assert "- Differs: format onnx fp32, published onnx trt fp16\n" in text
    assert "Not compared" not in text


def test_each_published_format_is_a_table_of_its_own() -> None:
    one = case_on("a30 bert-dist4l onnx - fp32", samples.load("offline", 8, 1000))
    text = written(one, other_formats=True)
    assert [title.rpartition(" published ")[2] for title in titles(text) if title.startswith("### ")] == [
        *("onnx fp16", "onnx trt fp16", "trt fp16", "ts-trace fp16")
    ]
    assert [row[2] for row in cells(text)] == ["2053.9", "3616", "3456", "2061.9"]


def test_a_case_that_has_its_like_is_not_set_beside_other_formats() -> None:
    one = case_on("a30 bert-dist4l onnx trt fp16")
    assert joined(one, other_formats=True)["throughput_published_per_s"].tolist() == [3616]
    assert "unlike" not in written(one, other_formats=True)


def test_settings_that_differ_are_named_with_both_values() -> None:
    one = case_on(
        "a40 resnet50 onnx trt fp16",
        samples.load("offline", 8, 100),
        samples.load("online", 32, 100),
        deployment=Deployment(64, 2, (), 100, cuda_graphs=True, warmup=True),
    )
    assert line_with("- Differs: ", written(one)) == (
        "- Differs: max batch size 64, published 128; instances 2, published 1; "
        "max queue delay in µs 100, published 1 (online only); "
        "preferred batch sizes none, published 64 128 (online only)"
    )
    assert joined(one)["differences"].tolist() == [
        "max batch size 64, published 128; instances 2, published 1",
        "max batch size 64, published 128; instances 2, published 1; "
        "max queue delay in µs 100, published 1; preferred batch sizes none, published 64 128",
    ]


def test_the_batcher_counts_online_only_since_it_is_off_offline() -> None:
    one = case_on(
        "a40 resnet50 onnx trt fp16",
        samples.load("offline", 8, 100),
        deployment=Deployment(128, 1, (32,), 5000, cuda_graphs=False, warmup=True),
    )
    assert line_with("- Differs: ", written(one)) == "- Differs: nothing that both sides state"
    assert joined(one)["differences"].isna().all()


@pytest.mark.parametrize(
    ("format_", "differs"),
    [("onnx -", "nothing that both sides state"), ("trt -", "CUDA graphs on, published off")],
)
def test_a_setting_that_was_not_published_is_no_difference(format_: str, differs: str) -> None:
    """BERT's README states CUDA graphs for TensorRT alone, and neither queue delay nor preferred sizes."""
    deployment = Deployment(16, 1, (4, 8), 700, cuda_graphs=True, warmup=True)
    text = written(case_on(f"a30 bert-dist4l {format_} fp16", deployment=deployment))
    assert line_with("- Differs: ", text) == f"- Differs: {differs}"


def test_the_python_backend_and_random_weights_are_differences() -> None:
    one = case_on(
        "a40 resnet50 onnx trt fp16",
        serving=samples.record().serving,
        build=samples.random_weights().build,
        accuracy=None,
    )
    assert line_with("- Differs: ", written(one)) == (
        "- Differs: Triton's Python backend, published the format's own; weights random, published trained"
    )


@pytest.mark.parametrize(
    ("name", "length"),
    [("a40 fastpitch ts-trace - fp16", 128), ("t4 bert-dist4l trt - fp16", 384)],
)
def test_a_published_sequence_length_is_stated(name: str, length: int) -> None:
    one = case_on(name)
    assert f"- Sequence length: not recorded, published {length}\n" in written(one)
    build = dataclasses.replace(one.build, inputs={"tokens": (64,)})
    assert f"- Sequence length: 64, published {length}\n" in written(dataclasses.replace(one, build=build))


def test_no_sequence_length_is_stated_where_none_was_published() -> None:
    assert "Sequence length" not in written(case_on("a40 resnet50 onnx trt fp16"))


def test_scores_of_the_published_metric_are_both_in_percent() -> None:
    f1 = Score("F1", "higher", 0.8341, 0.834, 0.8339, limits=(), passed=True)
    exact = dataclasses.replace(f1, metric="exact match", served=0.7412)
    ledger = Accuracy((exact, f1), samples=100, disagreements=(), requests=10, passed=True)
    one = case_on("a30 bert-dist4l onnx trt fp16", accuracy=ledger)
    assert "\n- F1: 83.39 % served, 83.34 % published\n" in written(one)
    (row,) = joined(one).to_dict("records")
    assert row["score_percent"] == pytest.approx(83.39)
    assert row["published_score_percent"] == 83.34


def test_another_metric_is_not_set_beside_the_published_one() -> None:
    one = case_on("a30 bert-dist4l onnx trt fp16")
    assert "served" not in written(one)
    assert joined(one)["score_percent"].isna().all()


# What is left out, and why.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accuracy": samples.failed_accuracy()}, "served top-1 93.1 % is below"),
        ({"conversion": samples.failed_conversion()}, "the converted model differs from the framework"),
        ({"conversion": None}, "the converted model was not compared with the framework"),
    ],
    ids=["accuracy", "conversion", "no conversion"],
)
def test_a_case_that_did_not_pass_shows_the_reason_and_no_speed(changes: Any, reason: str) -> None:
    load = samples.load("offline", 8, 31234.5, marks=samples.marks("its throughput was 31234.5"))
    one = case_on("a40 resnet50 onnx trt fp16", load, **changes)
    text = written(one)
    assert f"\n## a40-resnet50-onnx-trt-fp16\n\nNo throughput is shown: {reason}" in text
    assert "31234" not in text
    assert not cells(text)
    frame = joined(one)
    assert len(frame) == 1
    assert "31234" not in frame.to_csv()
    units = [name for name in COLUMNS if name.endswith(("_ms", "_per_s"))]
    measured = [name for name in units if "_published" not in name]
    ratios = [name for name in COLUMNS if "_ratio" in name]
    assert (len(measured), len(ratios)) == (9, 9)
    assert frame[measured + ratios].isna().all(axis=None)
    assert not frame["passed"].any()
    assert reason in frame["why_no_speed"][0]


def test_models_without_published_figures_share_one_line() -> None:
    micro = [case_on(f"cpu resnet50-micro onnx - {precision}") for precision in ("fp32", "int8")]
    text = written(*micro)
    assert text.split("\n\n") == [
        "# Measured beside published",
        "## Not compared",
        "- `cpu-resnet50-micro-onnx-fp32`, `cpu-resnet50-micro-onnx-int8`: NVIDIA published no figures of "
        "resnet50-micro, only of bert-dist4l, fastpitch, nnunet, resnet50, resnet50-tf.",
    ]
    assert written(*micro, other_formats=True) == text


def test_points_without_a_counterpart_are_counted_and_those_published_can_be_measured() -> None:
    one = case_on(
        "v100 nnunet ts-script - fp16",
        *(samples.load("offline", batch, 10) for batch in (1, 3)),
        *(samples.load("online", size, 10) for size in (2, 4, 6, 16, 8)),
    )
    text = written(one)
    assert text.endswith(
        "\n\n2 measured points were not published: offline, batch 3; online, concurrency 16.\n\n"
        "6 published points were not measured: offline, batch 2,4; online, concurrency 1,3,5,7. "
        "Measure them, with the other options of the case's run: "
        "`tox run -e benchmarks -- -k v100-nnunet-ts-script-fp16 --batches 2,4 --concurrencies 1,3,5,7`"
    )


def test_points_of_several_gpus_are_counted_once() -> None:
    one = case_on("h200 nnunet ts-script - fp16", samples.load("offline", 1, 10))
    assert "\n10 published points were not measured: " in written(one)


def test_one_point_is_one_point() -> None:
    one = case_on(
        "a30 bert-dist4l onnx - fp16",
        *(samples.load("offline", batch, 10) for batch in (1, 16)),
        samples.load("online", 4, 10),
    )
    text = written(one)
    assert "\n1 measured point was not published: online, concurrency 4.\n" in text
    assert "\n1 published point was not measured: offline, batch 8. Measure " in text
    assert text.endswith("-k a30-bert-dist4l-onnx-fp16 --batches 8`")


def test_nothing_is_said_of_points_when_all_have_their_counterpart() -> None:
    loads = [samples.load("offline", batch, 10) for batch in (1, 8, 16)]
    text = written(case_on("a30 bert-dist4l onnx - fp16", *loads))
    assert "measured point" not in text
    assert "published point" not in text


def test_a_batch_beyond_the_deployment_needs_a_larger_one_and_every_point_anew() -> None:
    """A record of another deployment is replaced, with all its points."""
    deployment = Deployment(2, 1, (2,), 1, cuda_graphs=False, warmup=True)
    loads = [samples.load("offline", batch, 10) for batch in (1, 2)]
    one = case_on("v100 nnunet ts-script - fp16", *loads, deployment=deployment)
    assert written(one).endswith(
        "9 published points were not measured: offline, batch 4; online, concurrency 1,2,3,4,5,6,7,8. "
        "Measure the case anew: `tox run -e benchmarks -- -k v100-nnunet-ts-script-fp16 --batches 1,2,4 "
        "--concurrencies 1,2,3,4,5,6,7,8 --deployment max_batch_size=4`"
    )


@pytest.mark.parametrize("loads", [(), (samples.load("offline", 3, 100),)], ids=["none", "others"])
def test_a_case_without_a_common_point_says_so_and_has_no_table(loads: tuple[schema.Load, ...]) -> None:
    one = dataclasses.replace(case_on("a40 resnet50 onnx trt fp16"), loads=loads)
    text = written(one)
    assert "\n\nNo load point was both measured and published.\n\n" in text
    assert "\n24 published points were not measured: " in text
    assert "###" not in text
    assert "|" not in text


# The command.


def test_the_command_prints_every_selected_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = store(
        tmp_path, case_on("a40 resnet50 onnx trt fp16"), case_on("cpu resnet50-micro onnx - fp32")
    )
    assert main(arguments) == 0
    assert titles(capsys.readouterr().out) == [
        "# Measured beside published",
        "## a40-resnet50-onnx-trt-fp16",
        "### Beside NVIDIA A40",
        "## Not compared",
    ]
    assert main([*arguments, "-k", "micro"]) == 0
    assert titles(capsys.readouterr().out) == ["# Measured beside published", "## Not compared"]


def test_the_command_sets_other_formats_beside_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = store(tmp_path, case_on("a40 resnet50 onnx - fp32"))
    assert main([*arguments, "--other-formats"]) == 0
    assert "### Beside NVIDIA A40, unlike: " in capsys.readouterr().out


def test_csv_is_tidy_and_the_rest_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = (samples.load("offline", 1, 50), samples.load("offline", 3, 50))
    one = case_on("h200 nnunet ts-script - fp16", *loads)
    arguments = store(tmp_path, one, case_on("cpu resnet50-micro onnx - fp32"))
    assert main([*arguments, "--csv"]) == 0
    printed = capsys.readouterr()
    read = pd.read_csv(io.StringIO(printed.out))
    assert tuple(read.columns) == COLUMNS
    assert read["published_gpu"].tolist() == ["v100", "a40", "t4", "a100"]
    assert read["throughput_ratio"].tolist() == pytest.approx([50 / 20.3, 50 / 22.2, 50 / 9.1, 50 / 26.1])
    assert [line.partition(" ")[0] for line in printed.err.splitlines()] == [
        "`h200-nnunet-ts-script-fp16`:",
        "`h200-nnunet-ts-script-fp16`:",
        "`cpu-resnet50-micro-onnx-fp32`:",
    ]
    assert "1 measured point was not published: offline, batch 3." in printed.err


def test_every_cell_of_a_row_has_its_column() -> None:
    (found,) = match([shown(case_on("a40 resnet50 onnx trt fp16"))])
    row = next(row for row in found.rows if (row["scenario"], row["batch"]) == ("offline", 8))
    assert set(joined_row(found.record, found.record.loads[0], row)) == set(COLUMNS)


@pytest.mark.parametrize(
    "one",
    [
        lambda: case_on("cpu resnet50-micro onnx - fp32"),
        lambda: case_on("a40 resnet50 onnx - fp32"),
        lambda: case_on("a40 resnet50 onnx trt fp16", samples.load("offline", 3, 1)),
    ],
    ids=["no model", "no format", "no point"],
)
def test_csv_without_rows_has_its_columns_and_a_reason(
    one: Callable[[], Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*store(tmp_path, one()), "--csv"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{','.join(COLUMNS)}\n"
    assert "published" in printed.err


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ((), (), "no records (TARGET/CASE.json). Measure some: tox run -e benchmarks"),
        (
            ("a40 resnet50 onnx trt fp16",),
            ("-k", "bert"),
            "no case has 'bert' in its name. There are: a40-resnet50-onnx-trt-fp16",
        ),
    ],
    ids=["empty folder", "unknown case"],
)
def test_nothing_to_compare_is_an_error_that_says_why(
    records: Sequence[str],
    options: Sequence[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*store(tmp_path, *map(case_on, records)), *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"error: {tmp_path}: {message}\n"


def test_help_explains_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["published", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in ("published figures", "--results DIR", "-k SUBSTRING", "--other-formats", "--csv"):
        assert part in text
    assert main([]) == 0
    assert "published set records beside" in " ".join(capsys.readouterr().out.split())


# What nothing was published of.


@pytest.mark.parametrize(
    ("target", "gpu", "count", "words"),
    [
        ("mig", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1, "a part of a GPU"),
        ("a100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1, "a part of a GPU"),
        ("a100", "NVIDIA A100-SXM4-80GB", 2, "measured on 2 GPUs"),
    ],
)
def test_a_part_of_a_gpu_and_several_of_them_stand_beside_no_published_figure(
    target: str, gpu: str, count: int, words: str
) -> None:
    whole = case_on("a100 resnet50 onnx trt fp16", samples.load("offline", 8, 1000))
    other = dataclasses.replace(
        whole,
        case=dataclasses.replace(whole.case, target=target, gpus=count),
        machine=dataclasses.replace(whole.machine, gpu=gpu),
    )
    (load,) = whole.loads
    assert published_ratio(shown(whole), load) is not None
    assert published_ratio(shown(other), load) is None
    text = written(other)
    assert words in text
    assert A100 not in text
