"""Texts of a command line: each option's is taken or refused in a sentence that names the option; `-k` is pytest's to refuse."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from fixtures.errors import InputError
from fixtures.run.keywords import asked_words, id_words, words_of
from tests.fuzz import damage
from tests.fuzz.limits import bounded, check_refusal
from tests.fuzz.profiles import tried
from tests.options import settings

CAMPAIGN_S = 60
"""Seconds of the campaign, over all options."""
LARGEST = 1e12
"""No number of an option's is larger: the largest that means something is a batch, some thousands, or a day in milliseconds."""

TEXTS = {
    "target": "a100,T4",
    "gpus": "2",
    "triton": "docker:nvcr.io/nvidia/tritonserver:24.10-py3",
    "checkpoint": "resnet50=.",
    "dataset": "bert-dist4l=.",
    "deployment": "instances=2, max_queue_delay_us=0,preferred_batch_sizes=16+32,warmup=false",
    "tf32": "on",
    "batches": "16,1,4",
    "concurrencies": "8,16",
    "request_rates": "50,100.5",
    "arrivals": "constant",
    "shared_memory": "none",
    "precision_target": "2.5%",
    "point_budget_s": "0.5",
    "certify": "99.9%",
    "price_per_hour": "1.20",
    "against_triton": "docker:nvcr.io/nvidia/tritonserver:24.10-py3",
    "allow_slowdown": "5%",
    "thresholds": "asked.toml",
    "latency_budget_ms": "7.5",
    "latency_percentile": "p95",
    "shard": "2/4",
    "shard_records": "reports",
    "repository": "reports",
    "results": "reports/results",
    "model_repos": "model_repos",
}
"""A value of each option that is taken, or nearly."""
LISTS = ("target", "checkpoint", "dataset")
"""Those that may be given several times."""
KEYWORDS = "a100 and not (resnet50-micro or t4) and not not onnx"


def hostile(text: str) -> st.SearchStrategy[str]:
    """The text with words and signs replaced, or another one."""
    changed = damage.text_of(text.encode()).map(lambda one: one.decode(errors="surrogateescape"))
    return changed | damage.TOKENS | st.text(max_size=30)


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from numbers_in(getattr(value, name))
    elif isinstance(value, Mapping):
        yield from numbers_in(tuple(value.values()))
    elif isinstance(value, tuple):
        for one in value:
            yield from numbers_in(one)
    elif isinstance(value, int | float):
        yield value


def try_option(name: str, seconds: float | None = None) -> None:
    option = f"--{name.replace('_', '-')}"

    def check(text: str) -> None:
        try:
            with bounded():
                found = settings(**{name: [text] if name in LISTS else text})
        except (InputError, pytest.UsageError) as error:
            check_refusal(error, option)
        else:
            assert all(math.isfinite(one) and abs(one) <= LARGEST for one in numbers_in(found)), text[:100]

    tried(check, hostile(TEXTS[name]), FOUND.get(name, ()), seconds)


FOUND: dict[str, tuple[str, ...]] = {}
"""Values that were not refused as they should have been, tried each time."""


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_of_an_option_is_taken_or_refused_in_a_sentence_that_names_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    try_option(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", TEXTS)
def test_no_value_of_an_option_does_anything_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    try_option(name, CAMPAIGN_S / len(TEXTS))


@pytest.mark.parametrize("name", ["onnx", "samples", "labels", "floor"])
def test_a_value_of_a_networks_option_is_taken_or_refused_in_a_sentence_that_names_it(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "net.onnx").touch()
    right = {
        "onnx": f"net={tmp_path / 'net.onnx'}",
        "samples": str(tmp_path),
        "labels": str(tmp_path / "net.onnx"),
        "metric": "top-1",
        "floor": "75%",
    }

    def check(text: str) -> None:
        try:
            with bounded():
                assert settings(**{key: [value] for key, value in (right | {name: text}).items()}).networks
        except InputError as error:
            check_refusal(error, f"--{name}")

    tried(check, hostile(right[name]))


def test_words_that_a_k_expression_asks_for_are_found_or_it_has_none() -> None:
    def check(text: str) -> None:
        with bounded():
            assert asked_words(text) <= {word for word, _ in words_of(text)}
            id_words([text, f"file.py::test[{text}]"])

    tried(check, hostile(KEYWORDS))
