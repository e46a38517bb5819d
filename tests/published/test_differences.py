"""What differs between a case and the published one is named, and what did not pass shows no speed."""

import dataclasses

import pytest

from reports.record import schema
from reports.record.schema import Accuracy, Deployment, Score
from tests import samples
from tests.published.cases import case_on, joined, written


def line_with(part: str, text: str) -> str:
    (found,) = [line for line in text.splitlines() if part in line]
    return found


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
        "`.venv/bin/tox run -e benchmarks -- -k v100-nnunet-ts-script-fp16 --batches 2,4 --concurrencies 1,3,5,7`"
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
        "Measure the case anew: `.venv/bin/tox run -e benchmarks -- -k v100-nnunet-ts-script-fp16 --batches 1,2,4 "
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
