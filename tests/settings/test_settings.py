"""Options become plain values; an unusable value is an error that names the option and says what to write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import Collect, parsed, parser, present, settings
from tests.user_models import networks
from tests.user_models.repositories import write_model
from tritonproof.base.errors import InputError
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.search.candidates import SearchGoal
from tritonproof.settings.options import options_of
from tritonproof.settings.settings import Settings, option

SHARDS = ("0/2", "2", "2/", "/2", "a/b", "1/0", "-1/2", "1/2/3", "1/1001", "", "²/3")
DEPLOYMENTS = (
    *("", " ", "instance=2", "tf32=true", "instances=0", "instances=", "instances=1,instances=2"),
    *("warmup=yes", "preferred_batch_sizes=16+x", "max_batch_size=99999999999"),
)


# --- an option is one field --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WithColour(Settings):
    """The suite's settings with another option."""

    colour: str | None = option(
        "output", "NAME", lambda _, text: text.lower(), goes_to="nodes checkout", conflicts_with="repository"
    )
    """The colour of the bars, 5 % of them."""


def test_option_is_a_single_field() -> None:
    given = parsed(["--colour", "RED"], WithColour)
    assert given.colour == "red"
    assert "The colour of the bars, 5 % of them." in parser(WithColour).format_help()
    for receiver in ("nodes", "checkout", ""):
        assert given.command_line(receiver)[-2:] == ["--colour", "red"]
    with pytest.raises(InputError, check=lambda error: error.where == "--repository --colour"):
        parsed(["--colour", "RED", "--repository", "."], WithColour)
    assert parsed([], WithColour).colour is None


def test_every_option_with_a_value_has_a_reader_and_names_others_that_exist() -> None:
    for name, spec in options_of(Settings).items():
        assert spec.metavar is None or callable(spec.read), f"{name} has no reader"
        assert {*spec.goes_to.split()} <= {"nodes", "checkout"}, f"{name} goes nowhere else"
        assert {*spec.conflicts_with.split(), *spec.needs.split()} <= options_of(Settings).keys(), name


def test_header_lists_given_options(collect: Collect) -> None:
    collected = collect("--target", "cpu", "--batches", "8,1", "-k", "resnet50-micro", "-v")
    assert "options: --target cpu --batches 1,8" in collected.text


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"batches": "16,1,4"}, "batches", (1, 4, 16)),
        ({"request_rates": "50, 12.5,100"}, "request_rates", (12.5, 50.0, 100.0)),
        ({}, "arrivals", None),
        ({"arrivals": "constant", "request_rates": "50"}, "arrivals", "constant"),
        ({}, "shared_memory", "system"),
        ({"triton": "127.0.0.1:8001"}, "shared_memory", "none"),
        ({"soak": "1.5h"}, "soak", 5400.0),
        ({"price_per_hour": "1.20"}, "price_per_hour", 1.2),
        ({"allow_slowdown": "2.5%", "against": "."}, "allow_slowdown", 0.025),
        ({}, "goal", None),
        ({"latency_budget_ms": "7.5"}, "goal", SearchGoal(7.5, 99)),
        ({"latency_budget_ms": "7", "latency_percentile": "p90"}, "goal", SearchGoal(7, 90)),
        ({"latency_budget_ms": "7", "arrivals": "poisson"}, "goal", SearchGoal(7, 99, "poisson")),
        (
            {"deployment": "instances=2, max_queue_delay_us=0,preferred_batch_sizes=16+32,warmup=false"},
            "deployment",
            {"instances": 2, "max_queue_delay_us": 0, "preferred_batch_sizes": (16, 32), "warmup": False},
        ),
    ],
)
def test_option_values_are_parsed(
    given: dict[str, Any], name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert getattr(settings(**given), name) == value


@pytest.mark.parametrize(("compared", "budget_s"), [(False, 3.0), (True, 120.0)])
def test_plan_follows_from_options_and_from_what_is_compared(compared: bool, budget_s: float) -> None:
    assert settings().plan(compared=compared) == MeasuringPlan(point_budget_s=budget_s)
    plan = settings(certify="p99.9", point_budget_s="0.5", interval_target="2.5%").plan(compared=compared)
    assert plan == MeasuringPlan(interval_target=0.025, point_budget_s=0.5, certify=99.9)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"target": ["a100,t5"]}, "--target t5"),
        *(({"gpus": text}, f"--gpus {text}") for text in ("0", "two")),
        *(({"request_rates": text}, f"--request-rates {text}") for text in ("50,x", "0", "1e6", "nan")),
        *(({"interval_target": text}, f"--interval-target {text}") for text in ("100", "0", "x")),
        ({"arrivals": "never"}, "--arrivals never"),
        ({"certify": "50"}, "--certify 50"),
        *(({"soak": text}, f"--soak {text}") for text in ("10", "-5m", "1s", "nanm", "infh", "9999h")),
        ({"checkpoint": ["resnet50"]}, "--checkpoint resnet50"),
        ({"checkpoint": ["resnet50=/no/such/file"]}, "--checkpoint resnet50=/no/such/file"),
        ({"dataset": ["=x"]}, "--dataset =x"),
        ({"dataset": ["resnet50=/", "resnet50=/"]}, "--dataset resnet50=/"),
        *(({"deployment": text}, f"--deployment {text}") for text in DEPLOYMENTS),
        *(({"point_budget_s": text}, f"--point-budget-s {text}") for text in ("50%", "0", "nan", "fast")),
        *(({"latency_budget_ms": text}, f"--latency-budget-ms {text}") for text in ("0", "7ms", "inf")),
        ({"latency_percentile": "50", "latency_budget_ms": "7"}, "--latency-percentile 50"),
        *(({"price_per_hour": text}, f"--price-per-hour {text}") for text in ("-1", "1e308")),
        *(({"batches": text}, f"--batches {text}") for text in ("0", "", "99999999999")),
        ({"concurrencies": "1,,2"}, "--concurrencies 1,,2"),
        ({"shared_memory": "shared"}, "--shared-memory shared"),
        ({"tf32": "perhaps"}, "--tf32 perhaps"),
        ({"triton": "embeded"}, "--triton"),
        *(({"shard": text}, f"--shard {text}") for text in SHARDS),
        *(
            ({"against": text}, f"--against {text}")
            for text in ("", " ", "/no/such", "no-such-branch", "--all")
        ),
        ({"against_triton": "local:/no/such/program"}, "--against-triton"),
        ({"results": ""}, "--results"),
        ({"model_repos": "a\nb"}, "--model-repos"),
        ({"answers": "bytes-\udcff"}, "--answers"),
        ({"checkpoint": [f"resnet50={'x' * 10_000}"]}, "--checkpoint resnet50=xxx"),
        # options that contradict each other
        ({"latency_budget_ms": "7", "request_rates": "50", "arrivals": "poisson"}, "--arrivals"),
        ({"arrivals": "constant"}, "--arrivals"),
        ({"record_answers": True}, "--record-answers"),
        ({"allow_slowdown": "4", "latency_budget_ms": "7"}, "--allow-slowdown"),
        ({"latency_percentile": "95", "against": "."}, "--latency-percentile"),
        ({"against": ".", "against_triton": "embedded"}, "--against --against-triton"),
        ({"convert_only": True, "fleet": "auto"}, "--fleet --convert-only"),
        ({"repository": ".", "deployment": "instances=2"}, "--repository --deployment"),
        ({"repository": ".", "tf32": "off"}, "--repository --tf32"),
        ({"repository": ".", "checkpoint": ["resnet50=x"]}, "--repository --checkpoint"),
        ({"repository": ".", "onnx": ["a=x"]}, "--repository --onnx"),
        ({"repository": ".", "triton": "127.0.0.1:9"}, "--repository"),
        ({"repository": "remote"}, "--repository remote"),
        ({"repository": "remote:a,b"}, "--repository remote:a,b"),
        (
            {"repository": "remote", "triton": "127.0.0.1:8001", "latency_budget_ms": "7"},
            "--latency-budget-ms --triton 127.0.0.1:8001",
        ),
        ({"triton": "127.0.0.1:8001", "against": "."}, "--against"),
        ({"triton": "127.0.0.1:8001", "fleet": "auto"}, "--fleet"),
        ({"triton": "127.0.0.1:9", "shared_memory": "cuda"}, "--triton 127.0.0.1:9 --shared-memory cuda"),
        ({"gpus": "2", "shared_memory": "cuda"}, "--gpus 2 --shared-memory cuda"),
        ({"against_triton": "127.0.0.1:8001"}, "--against-triton 127.0.0.1:8001"),
        ({"triton": "127.0.0.1:8001", "against_triton": "embedded"}, "--against-triton embedded"),
        ({"repository": ".", "against": "HEAD"}, "--repository"),
    ],
)
def test_invalid_value_and_contradiction_name_their_options(given: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as raised:
        settings(**given)
    assert raised.value.where.startswith(where.strip())
    assert raised.value.fix


def test_both_remote_servers_share_access_settings(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("authorization: x\n")
    options = settings(triton="127.0.0.1:1", against_triton="127.0.0.1:2", triton_headers=str(headers))
    assert present(options.against_triton).access == options.triton.access
    assert options.triton.access.metadata


def test_tf32_follows_option_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable turns TF32 off in NVIDIA's libraries, and a record must not claim otherwise."""
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    assert (settings().tf32, settings(tf32="off").tf32) == (True, False)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert not settings().tf32
    with pytest.raises(InputError, check=lambda error: error.where == "--tf32 on, NVIDIA_TF32_OVERRIDE=0"):
        settings(tf32="on")


# --- ONNX files, samples and labels ------------------------------------------------------------------------


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    """An ONNX file, and folders of samples."""
    samples = {name: networks.rows(tmp_path / name, 1) for name in ("rows", "k=v")}
    return {"net": networks.linear(tmp_path / "net.onnx"), **samples}


def test_unnamed_values_apply_to_all_networks(paths: dict[str, Path]) -> None:
    net, rows, other = paths.values()
    by_name = settings(onnx=[f"a={net}", f"b={net}"], samples=[str(rows), f"a={other}"]).onnx_options
    assert (by_name["a"].samples, by_name["b"].samples) == (other, rows)
    alone = settings(onnx=[f"a={net}"], samples=[str(other)]).onnx_options["a"]
    assert alone.samples == other, "a folder k=v"


def test_repository_samples_belong_to_no_network(paths: dict[str, Path], tmp_path: Path) -> None:
    write_model(tmp_path / "repository", "one", None, 'backend: "python"')
    assert (
        settings(repository=str(tmp_path / "repository"), samples=[f"one={paths['rows']}"]).onnx_options == {}
    )


BAD: dict[str, tuple[str, dict[str, list[str]]]] = {
    "no name": ("--onnx", {"onnx": ["{net}"]}),
    "no file": ("--onnx a", {"onnx": ["a={net}.none"]}),
    "two of a name": ("--onnx a", {"onnx": ["a={net}", "a={net}"]}),
    "samples of nothing": ("--samples /", {"samples": ["{rows}"]}),
    "two folders for one": ("--samples", {"onnx": ["a={net}"], "samples": ["{rows}", "{rows}"]}),
    "labels without metric": ("--labels", {"onnx": ["a={net}"], "samples": ["{rows}"], "labels": ["{net}"]}),
    "labels without samples": ("--labels", {"onnx": ["a={net}"], "labels": ["{net}"], "metric": ["top-1"]}),
    "a floor without a metric": ("--floor", {"onnx": ["a={net}"], "floor": ["0.5"]}),
    "a floor that is none": ("--floor high", {"onnx": ["a={net}"], "floor": ["high"]}),
    "samples of another network": ("--samples b=/", {"onnx": ["a={net}"], "samples": ["b={rows}"]}),
    "labels of another network": ("--labels b=/", {"onnx": ["a={net}"], "labels": ["b={net}"]}),
    "a tolerance that is no number": ("--tolerance a=wide", {"onnx": ["a={net}"], "tolerance": ["a=wide"]}),
    "a tolerance of nothing": ("--tolerance 0", {"onnx": ["a={net}"], "tolerance": ["0"]}),
    "a tolerance of everything": ("--tolerance 100%", {"onnx": ["a={net}"], "tolerance": ["100%"]}),
    "a tolerance for no model": ("--tolerance b=0.1", {"onnx": ["a={net}"], "tolerance": ["b=0.1"]}),
}


@pytest.mark.parametrize(("where", "given"), BAD.values(), ids=BAD)
def test_invalid_network_option_is_named(paths: dict[str, Path], where: str, given: Any) -> None:
    texts = {name: [value.format(**paths) for value in values] for name, values in given.items()}
    with pytest.raises(InputError) as raised:
        assert settings(**texts).onnx_options is None
    assert raised.value.where.startswith(where)
    assert raised.value.fix


# --- the command lines of other runs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        ("--batches", "1,8"),
        ("--request-rates", "12.5,100", "--arrivals", "constant"),
        ("--point-budget-s", "0.5", "--interval-target", "2", "--certify", "99.9"),
        ("--soak", "90s"),
        ("--latency-budget-ms", "7", "--latency-percentile", "95"),
        ("--triton", "docker:image", "--shared-memory", "none"),
        ("--deployment", "instances=2,preferred_batch_sizes=16+32,warmup=false"),
        ("--tf32", "off", "--gpus", "2", "--price-per-hour", "1.2"),
        ("--record-answers", "--answers", "/tmp"),
        ("--checkpoint", "resnet50=/", "--checkpoint", "bert-dist4l=/", "--dataset", "resnet50=/"),
        ("--models", "tritonproof/models"),
    ],
)
def test_settings_survive_node_command_line(given: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    options = parsed(given)
    monkeypatch.chdir("/")
    assert parsed(options.command_line("nodes")) == options


def test_node_command_omits_tests_and_results(tmp_path: Path) -> None:
    options = parsed(["--target", "a100", "--results", str(tmp_path), "--fleet", "auto", "--shard", "1/2"])
    assert options.command_line("nodes") == []


def test_network_options_reach_nodes_and_builds(paths: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("00,1\n01,2\n")
    net, rows = paths["net"], paths["rows"]
    words = f"--onnx a={net} --onnx b={net} --samples {rows} --tolerance b=0.5% --floor a=75% "
    words += f"--labels a={tmp_path / 'labels.csv'} --metric a=dice:average=micro"
    options = parsed(words.split())
    assert parsed(options.command_line("nodes")).onnx_options == options.onnx_options
    assert parsed(options.command_line("checkout", "b")).onnx_options == {"b": options.onnx_options["b"]}
    assert parsed(options.command_line("checkout", "resnet50")).onnx_options == {}


def test_other_checkout_gets_only_build_options(tmp_path: Path) -> None:
    """An earlier version does not know later options."""
    given = settings(checkpoint=["resnet50=/", "nnunet=/"], deployment="instances=2", batches="1", tf32="off")
    expected = "--triton embedded --checkpoint resnet50=/ --deployment instances=2 --tf32 off"
    assert given.command_line("checkout", "resnet50") == expected.split()
    assert settings().command_line("checkout", "resnet50") == ["--triton", "embedded"]
