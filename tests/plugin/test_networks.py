"""--onnx and its companions: which tests there are, what the header says, and what other runs are told."""

from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.plugin.command_line.networks import add_networks, as_options, networks_of
from tests.collecting import Collect
from tests.given import networks
from tests.options import options


def test_the_networks_run_alone_in_every_format_of_an_onnx_file(tmp_path: Path, collect: Collect) -> None:
    path, samples = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "samples", 12)
    found = collect("--onnx", f"mine={path}", "--samples", str(samples), "--target", "cpu")
    ways = ("onnx-fp32", "onnx-int8", "openvino-fp32")
    assert found.cases("test_conversion") == {f"cpu-mine-{way}" for way in ways}
    assert all("cpu-mine-" in name for name in found.names)
    on_a_gpu = collect("--onnx", f"mine={path}", "--samples", str(samples), "--target", "a100")
    assert on_a_gpu.cases("test_conversion") == {
        f"a100-mine-{way}-{precision}"
        for way in ("onnx", "onnx-trt", "trt")
        for precision in ("fp32", "fp16")
    }
    assert not [name for name in collect("--target", "cpu").names if "mine" in name]


def test_a_network_of_one_row_is_measured_with_that_batch_whatever_the_others_are_asked_for(
    tmp_path: Path, collect: Collect
) -> None:
    one, any_ = networks.linear(tmp_path / "one.onnx", batch=1), networks.linear(tmp_path / "any.onnx")
    both = ("--onnx", f"one={one}", "--onnx", f"any={any_}", "--target", "cpu", "-k", "onnx and fp32")
    found = collect(*both, "--batches", "1,64", "--deployment", "max_batch_size=64")
    assert found.cases("test_offline") == {
        "cpu-any-onnx-fp32-b001-c001",
        "cpu-any-onnx-fp32-b064-c001",
        "cpu-one-onnx-fp32-b001-c001",
    }


def test_what_cannot_be_used_ends_the_run_as_bad_input(tmp_path: Path, collect: Collect) -> None:
    (tmp_path / "net.onnx").write_text("no network")
    found = collect("--onnx", f"mine={tmp_path / 'net.onnx'}")
    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert str(tmp_path / "net.onnx") in found.text


def test_a_name_that_a_model_has_already_is_refused(tmp_path: Path, collect: Collect) -> None:
    found = collect("--onnx", f"resnet50={networks.linear(tmp_path / 'net.onnx')}")
    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert "there is a model resnet50 already" in found.text


def test_values_without_a_name_are_for_all_networks_and_named_ones_for_one(tmp_path: Path) -> None:
    path = networks.linear(tmp_path / "net.onnx")
    own, shared = networks.rows(tmp_path / "own", 1), networks.rows(tmp_path / "shared", 1)
    found = networks_of(options(onnx=[f"a={path}", f"b={path}"], samples=[str(shared), f"a={own}"]))
    assert (found["a"].samples, found["b"].samples) == (own, shared)


def test_what_is_told_to_another_run_says_the_same(tmp_path: Path) -> None:
    path, samples = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "samples", 1)
    (tmp_path / "l.csv").write_text("00,1\n")
    given = options(
        onnx=[f"a={path}"],
        samples=[str(samples)],
        labels=[str(tmp_path / "l.csv")],
        metric=["dice:average=micro"],
        floor=["75%"],
        tolerance=["a=0.5%"],
    )
    found = networks_of(given)["a"]
    assert found.labels is not None
    assert found.labels.floor == 0.75
    assert found.tolerance == 0.005
    told = as_options("a", found)
    again = options()
    for option, value in zip(told[::2], told[1::2], strict=True):
        getattr(again, option.removeprefix("--")).append(value)
    assert networks_of(again) == {"a": found}


BAD: dict[str, dict[str, list[str]]] = {
    "no name": {"onnx": ["{net}"]},
    "no file": {"onnx": ["a={net}.none"]},
    "a name with spaces": {"onnx": ["a b={net}"]},
    "a target's name": {"onnx": ["my-a100={net}"]},
    "two of a name": {"onnx": ["a={net}", "a={net}"]},
    "samples of nothing": {"onnx": [], "samples": ["{rows}"]},
    "two folders for one": {"onnx": ["a={net}"], "samples": ["{rows}", "{rows}"]},
    "labels without a metric": {"onnx": ["a={net}"], "samples": ["{rows}"], "labels": ["{net}"]},
    "labels without samples": {"onnx": ["a={net}"], "labels": ["{net}"], "metric": ["top-1"]},
    "a floor without a metric": {"onnx": ["a={net}"], "floor": ["0.5"]},
    "a floor that is none": {
        "onnx": ["a={net}"],
        "samples": ["{rows}"],
        "labels": ["{net}"],
        "metric": ["top-1"],
        "floor": ["high"],
    },
    "samples of a network that there is not": {"onnx": ["a={net}"], "samples": ["b=/nowhere"]},
    "labels of a network that there is not": {"onnx": ["a={net}"], "labels": ["b=/nowhere"]},
    "a floor in digits of another script": {
        "onnx": ["a={net}"],
        "samples": ["{rows}"],
        "labels": ["{net}"],
        "metric": ["top-1"],
        "floor": ["٣"],
    },
    "a tolerance that is no number": {"onnx": ["a={net}"], "tolerance": ["a=wide"]},
    "a tolerance of nothing": {"onnx": ["a={net}"], "tolerance": ["0"]},
    "a tolerance of everything": {"onnx": ["a={net}"], "tolerance": ["100%"]},
    "a tolerance for no model": {"onnx": ["a={net}"], "tolerance": ["b=0.1"]},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_options_that_cannot_be_are_refused_with_a_cure(tmp_path: Path, given: dict[str, list[str]]) -> None:
    places = {"net": networks.linear(tmp_path / "net.onnx"), "rows": networks.rows(tmp_path / "rows", 1)}
    texts = {name: [value.format(**places) for value in values] for name, values in given.items()}
    with pytest.raises(InputError, match="--") as raised:
        networks_of(options(**texts))
    assert raised.value.cure


def test_a_name_that_no_model_has_is_the_one_that_is_named(tmp_path: Path) -> None:
    net = networks.linear(tmp_path / "net.onnx")

    with pytest.raises(InputError, match="there is no model b") as raised:
        networks_of(options(onnx=[f"a={net}"], labels=["b=/nowhere"]))
    assert raised.value.cure.endswith(": a")


def test_a_folder_with_an_equals_sign_in_its_name_is_one_of_samples(tmp_path: Path) -> None:
    net, rows = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "k=v", 1)

    assert networks_of(options(onnx=[f"a={net}"], samples=[str(rows)]))["a"].samples == rows


def test_an_environment_that_cannot_read_the_file_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a fleet's controller's, which collects the tests without any framework."""
    monkeypatch.setattr("fixtures.plugin.command_line.networks.find_spec", lambda _name: None)
    path = networks.linear(tmp_path / "net.onnx")

    with pytest.raises(InputError, match=r"onnx and onnxruntime(.|\n)*pip install onnx onnxruntime"):
        add_networks(networks_of(options(onnx=[f"net={path}"])), [f"net={path}"])
