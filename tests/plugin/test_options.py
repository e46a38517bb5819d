"""Options: good values become plain values, bad ones an error that names the option and the cure."""

import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.errors import InputError
from fixtures.measure.stopping import MeasuringPlan
from fixtures.plugin.command_line.passed_options import passed_on
from fixtures.plugin.command_line.settings import Settings, check_python, parse
from fixtures.search.candidates import Goal
from tests.collecting import Collect
from tests.options import options

DIGITS = "9" * 5000


def settings(**given: Any) -> Settings:
    """The settings of a run with these options and the defaults of the others."""
    return parse(options(**given))


def test_defaults_change_nothing() -> None:
    found = settings()
    assert found.triton.kind == "embedded"
    assert found.deployment == {}
    assert found.batches is None
    assert found.shared_memory == "system"
    assert found.results.is_absolute()


def test_values_are_read() -> None:
    found = settings(
        deployment="instances=2, max_queue_delay_us=0,preferred_batch_sizes=16+32,warmup=false",
        batches="16,1,4",
        concurrencies="8",
        precision_target="2.5%",
        point_budget_s="0.5",
        shared_memory="none",
    )
    assert found.deployment == {
        "instances": 2,
        "max_queue_delay_us": 0,
        "preferred_batch_sizes": (16, 32),
        "warmup": False,
    }
    assert found.batches == (1, 4, 16)
    assert found.concurrencies == (8,)
    assert found.plan == MeasuringPlan(precision_target=0.025, budget_s=0.5)
    assert found.shared_memory == "none"


@pytest.mark.parametrize("option", ["--against", "--results", "--target", "--checkpoint"])
def test_two_dashes_are_no_value_of_any_option(option: str, collect: Collect) -> None:
    collected = collect(f"{option}=--")
    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert f"where: {option}=--" in collected.text


def test_rates_are_sorted_and_arrive_as_by_chance_unless_asked_otherwise() -> None:
    assert settings(request_rates="50, 12.5,100").request_rates == (12.5, 50.0, 100.0)
    assert settings().arrivals == "poisson"
    assert settings(request_rates="50", arrivals="constant").arrivals == "constant"


def test_a_latency_budget_is_a_goal_at_p99_unless_asked_otherwise() -> None:
    assert settings().goal is None
    assert settings(latency_budget_ms="7.5").goal == Goal(7.5, 99)
    assert settings(latency_budget_ms="7", latency_percentile="p90").goal == Goal(7, 90)


def test_a_latency_budget_with_arrivals_asks_for_a_rate() -> None:
    assert settings(latency_budget_ms="7", arrivals="poisson").goal == Goal(7, 99, "poisson")
    assert settings(latency_budget_ms="7", arrivals="constant").goal == Goal(7, 99, "constant")
    both = settings(latency_budget_ms="7", request_rates="50")
    assert (both.goal, both.request_rates, both.arrivals) == (Goal(7, 99), (50.0,), "poisson")


def test_arrivals_of_rates_that_are_given_and_of_one_that_is_searched_are_refused_together() -> None:
    with pytest.raises(InputError) as raised:
        settings(latency_budget_ms="7", request_rates="50", arrivals="poisson")
    assert "--request-rates --arrivals --latency-budget-ms" in str(raised.value)
    assert "leave out --request-rates" in str(raised.value)


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"arrivals": "constant"}, "--request-rates")],
)
def test_an_option_that_means_nothing_without_another_is_refused(given: dict[str, str], missing: str) -> None:
    with pytest.raises(InputError, match=f"cure: +give {missing} too"):
        settings(**given)


def test_a_remote_server_is_given_tensors_over_the_network_and_never_through_shared_memory() -> None:
    assert settings(triton="127.0.0.1:8001").shared_memory == "none"
    assert settings(triton="127.0.0.1:8001", shared_memory="none").shared_memory == "none"
    for text in ("system", "cuda"):
        with pytest.raises(InputError, match="let go of the shared memory of all clients"):
            settings(triton="127.0.0.1:8001", shared_memory=text)


def test_a_checkpoint_and_a_data_set_belong_to_a_model(tmp_path: Path) -> None:
    file = tmp_path / "weights=1.pt"
    file.touch()
    found = settings(checkpoint=[f"resnet50={file}"], dataset=[f"resnet50={tmp_path}"])
    assert found.checkpoints == {"resnet50": file}
    assert found.datasets == {"resnet50": tmp_path}


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("target", "a100,t5", "unknown target 't5'"),
        ("gpus", "0", "--gpus: '0' is not a number of GPUs; write a whole number from 1, such as 2"),
        ("gpus", "two", "--gpus: 'two' is not a number of GPUs; write a whole number from 1, such as 2"),
        ("request_rates", "50,x", "not a list of requests per second"),
        ("precision_target", "100", "not a percentage"),
        ("arrivals", "never", "poisson"),
        ("certify", "50", "99.9"),
        ("soak", "10", "write 10m"),
        ("checkpoint", ["resnet50"], "write --checkpoint MODEL=PATH"),
        ("checkpoint", ["resnet50="], "the path is empty"),
        ("checkpoint", ["resnet51=x"], "unknown model 'resnet51'"),
        ("checkpoint", ["resnet50=/no/such/file"], "there is no such file"),
        ("dataset", ["resnet50=/no/such/folder"], "there is no such file or folder"),
        ("dataset", ["=x"], "unknown model ''"),
        ("deployment", "", "is a variable not set?"),
        ("deployment", " ", "is a variable not set?"),
        ("deployment", "instance=2", "unknown setting 'instance'"),
        ("deployment", "instances=0", "instances is '0'"),
        ("deployment", "instances=1,instances=2", "instances is given twice"),
        ("point_budget_s", "50%", "not a time in seconds"),
        ("latency_budget_ms", "1_0", "not a latency in milliseconds"),
        ("request_rates", "1_0", "not a list of requests per second"),
        ("request_rates", "50,\u0664", "not a list of requests per second"),
        ("precision_target", "\uff14%", "not a percentage"),
        ("point_budget_s", "\uff14", "not a time in seconds"),
        ("latency_budget_ms", "\u0663", "not a latency in milliseconds"),
        ("allow_slowdown", "\u0663", "not a percentage"),
        ("price_per_hour", "\u0663", "not an amount"),
        ("soak", "\u0663m", "write 10m"),
        ("deployment", "instances", "instances is ''"),
        ("deployment", "warmup=yes", "use true or false"),
        ("deployment", "preferred_batch_sizes=16+x", "preferred_batch_sizes is '16+x'"),
        ("deployment", "max_queue_delay_us=-1", "max_queue_delay_us is '-1'"),
        ("batches", "0", "not a list of whole numbers from 1"),
        ("batches", "", "not a list of whole numbers from 1"),
        ("concurrencies", "1,,2", "write 1,4,16"),
        ("shared_memory", "shared", "invalid choice: 'shared'"),
        ("point_budget_s", "0", "not a time in seconds"),
        ("point_budget_s", "nan", "not a time in seconds"),
        ("point_budget_s", "fast", "not a time in seconds"),
        ("latency_budget_ms", "0", "not a latency in milliseconds"),
        ("latency_budget_ms", "7ms", "write 7"),
        ("latency_budget_ms", "inf", "not a latency in milliseconds"),
        ("latency_percentile", "50", "invalid choice: '50'"),
        ("triton", "embeded", "unknown server 'embeded'"),
        ("triton", "docker:--privileged", "unknown server 'docker:--privileged'"),
        ("triton", f"127.0.0.1:{DIGITS}", "unknown server"),
        ("shard", f"1/{DIGITS}", "not a shard"),
        *(
            ("shard", value, f"--shard: {value!r} is not a shard")
            for value in ("0/2", "2", "2/", "/2", "a/b", "1/0", "-1/2", "1/2/3", "1/1001", "", "²/3")
        ),
        ("deployment", f"instances={DIGITS}", "whole numbers from 1 to"),
        ("deployment", "max_batch_size=99999999999", "whole numbers from 1 to"),
        ("batches", "99999999999", "not a list of whole numbers"),
        ("price_per_hour", "1e308", "not an amount"),
        ("against", "", "the path is empty"),
        ("results", "", "the path is empty"),
        ("results", "~no-such-user-here/x", "cannot be found"),
        ("model_repos", "a\nb", "control characters"),
        ("answers", "bytes-\udcff", "no UTF-8"),
        ("checkpoint", [f"resnet50={'x' * 10_000}"], "longer than any"),
        ("dataset", ["resnet50=/", "resnet50=/"], "a second value"),
    ],
)
def test_a_bad_value_is_named_with_its_cure(option: str, value: Any, said: str) -> None:
    with pytest.raises((InputError, pytest.UsageError)) as raised:
        settings(**{option: value})
    text = str(raised.value)
    assert said in text
    assert len(text) < 1000
    assert f"--{option.replace('_', '-')}" in text
    assert re.search("cure:|; write|; use|choose from", text)


def test_a_python_without_wheels_for_numpy_1_is_refused_with_the_cure() -> None:
    check_python((3, 11))
    check_python((3, 12))
    for version in ((3, 10), (3, 13)):
        with pytest.raises(InputError, match=r"(?s)NumPy 1.*use Python 3\.11 or 3\.12"):
            check_python(version)


def test_tf32_is_on_unless_it_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    assert settings().tf32
    assert not settings(tf32="off").tf32
    with pytest.raises(pytest.UsageError, match=r"--tf32: invalid choice: 'perhaps'"):
        settings(tf32="perhaps")


def test_tf32_is_off_where_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's libraries would compute without it, and a record that says otherwise would not be true."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert not settings().tf32
    assert not settings(tf32="off").tf32
    with pytest.raises(InputError, match=r"(?s)--tf32 on, NVIDIA_TF32_OVERRIDE=0.*leave --tf32 out"):
        settings(tf32="on")


def test_the_other_build_is_made_without_tf32_where_this_one_is() -> None:
    """And is told nothing else: an earlier version does not know the option."""
    assert passed_on(settings(tf32="off"), "resnet50") == ["--triton", "embedded", "--tf32", "off"]
    assert passed_on(settings(), "resnet50") == ["--triton", "embedded"]


def test_a_checkout_that_builds_the_other_gets_the_file_of_a_model_that_it_lacks() -> None:
    own = parse(options(), {"mine": Path("/a/mine.py")})
    assert passed_on(own, "mine")[-2:] == ["--models", "/a/mine.py"]
    assert "--models" not in passed_on(own, "resnet50")


def test_tf32_is_no_setting_of_the_deployment() -> None:
    """It means something for some cases of a run alone."""
    with pytest.raises(pytest.UsageError, match="unknown setting 'tf32'"):
        settings(deployment="tf32=true")
