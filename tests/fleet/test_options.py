"""What of the controller's command line a node's run gets: how to measure, and not which tests or where records go."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from fixtures.plugin.command_line.networks import networks_of
from fixtures.plugin.command_line.passed_options import options_for_nodes
from fixtures.plugin.command_line.settings import parse
from tests.given import networks
from tests.options import parser as suites_parser


def parser() -> argparse.ArgumentParser:
    """The suite's options, and one of pytest's own."""
    found = suites_parser()
    found.add_argument("--full-trace", action="store_true", dest="fulltrace")
    return found


def on_a_node(*given: str) -> tuple[Any, Any]:
    """The options of the controller, and those of a node's run, both as parsed."""
    controller = parser().parse_args([*given, "--fleet", "auto"])
    files = {model: Path(file) for file in controller.models for model in ("mine", "mine-micro")}
    given_networks = networks_of(controller)
    passed = options_for_nodes(controller, parse(controller, files, given_networks))
    return controller, parser().parse_args(list(passed))


@pytest.mark.parametrize(
    "given",
    [
        ("--batches", "1,8"),
        ("--concurrencies", "4"),
        ("--request-rates", "50,100", "--arrivals", "constant"),
        ("--point-budget-s", "0.5"),
        ("--precision-target", "2"),
        ("--certify", "99.9"),
        ("--shared-memory", "none"),
        ("--soak", "90s"),
        ("--latency-budget-ms", "7", "--latency-percentile", "95"),
        ("--price-per-hour", "1.20"),
        ("--gpus", "2"),
        ("--triton", "docker:image"),
        ("--deployment", "instances=2,preferred_batch_sizes=16+32,warmup=false"),
        ("--tf32", "off"),
        ("--allow-slowdown", "4"),
    ],
)
def test_an_option_that_says_how_to_measure_reaches_the_node(given: tuple[str, ...]) -> None:
    controller, node = on_a_node(*given)

    for option in given[::2]:
        name = option.removeprefix("--").replace("-", "_")
        assert getattr(node, name) == getattr(controller, name)


def test_paths_reach_the_node_whole(tmp_path: Path) -> None:
    for name in ("bert", "data"):
        (tmp_path / name).mkdir()
    given = ["--checkpoint", f"bert-dist4l={tmp_path / 'bert'}", "--dataset", f"resnet50={tmp_path / 'data'}"]
    asked = tmp_path / "thresholds.toml"
    asked.write_text('[[cases]]\nmatch = "cpu-*"\nallowed_slowdown_percent = 3\n')
    given += ["--models", str(tmp_path / "mine.py"), "--thresholds", str(asked)]

    _, node = on_a_node(*given)

    assert node.checkpoint == [f"bert-dist4l={tmp_path / 'bert'}"]
    assert node.dataset == [f"resnet50={tmp_path / 'data'}"]
    assert node.thresholds == str(asked)
    assert set(node.models) == {str(tmp_path / "mine.py")}


def test_recorded_answers_are_a_folder_that_every_node_sees(tmp_path: Path) -> None:
    _, node = on_a_node("--answers", str(tmp_path), "--record-answers")

    assert (node.answers, node.record_answers) == (str(tmp_path), True)


def test_networks_reach_the_node_with_their_samples_and_labels(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path, samples = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "samples", 2)
    (tmp_path / "labels.csv").write_text("00,1\n01,2\n")
    given = ["--onnx", f"a={path}", "--onnx", f"b={path}", "--samples", str(samples)]
    given += ["--labels", f"a={tmp_path / 'labels.csv'}", "--metric", "a=top-1", "--floor", "a=0.5"]
    given += ["--tolerance", "b=0.01"]

    controller, node = on_a_node(*given)

    assert networks_of(node) == networks_of(controller)
    assert set(networks_of(node)) == {"a", "b"}


def test_which_tests_run_and_where_records_go_a_node_is_told_by_itself(tmp_path: Path) -> None:
    _, node = on_a_node("--target", "a100", "--results", str(tmp_path))

    plain = parser().parse_args([])
    assert (node.target, node.results, node.fleet) == (plain.target, plain.results, None)


def test_a_node_keeps_its_own_kind_of_server_where_none_was_named() -> None:
    _, node = on_a_node()

    assert node.triton is None
