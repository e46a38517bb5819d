"""--onnx and its companions: selected tests, header and errors."""

from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.host import machine
from fixtures.run.models import models_of
from tests.helpers import Collect, settings
from tests.user_models import networks


def test_onnx_option_runs_only_its_networks_in_every_format(tmp_path: Path, collect: Collect) -> None:
    path, samples = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "samples", 12)
    options = ("--onnx", f"mine={path}", "--samples", str(samples))
    collected = collect(*options, "--target", "cpu", "-k", "onnx or int8 or openvino")
    variants = ("onnx-fp32", "onnx-int8", "openvino-fp32")
    assert collected.cases("test_conversion") == {f"cpu-mine-{variant}" for variant in variants}
    assert all("cpu-mine-" in name for name in collected.names)
    on_a_gpu = collect("--onnx", f"mine={path}", "--samples", str(samples), "--target", "a100")
    assert on_a_gpu.cases("test_conversion") == {
        f"a100-mine-{variant}-{precision}"
        for variant in ("onnx", "onnx-trt", "trt")
        for precision in ("fp32", "fp16")
    }
    assert not [name for name in collect("--target", "cpu").names if "mine" in name]


def test_int8_and_missing_formats_run_only_if_named(
    tmp_path: Path, collect: Collect, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_of = machine.version_of
    monkeypatch.setattr(machine, "version_of", lambda name: None if name == "openvino" else version_of(name))
    path, samples = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "samples", 12)
    options = ("--onnx", f"mine={path}", "--samples", str(samples), "--target", "cpu")
    collected = collect(*options)
    assert collected.cases("test_conversion") == {"cpu-mine-onnx-fp32"}
    assert "needs OpenVINO: " in collected.text
    assert "INT8 is left out" in collected.text
    assert collect(*options, "-k", "mine and int8").cases("test_conversion") == {"cpu-mine-onnx-int8"}
    assert collect(*options, "-k", "openvino").cases("test_conversion") == {"cpu-mine-openvino-fp32"}


def test_fixed_batch_network_is_measured_at_that_batch(tmp_path: Path, collect: Collect) -> None:
    fixed, dynamic = networks.linear(tmp_path / "one.onnx", batch=1), networks.linear(tmp_path / "any.onnx")
    options = ("--onnx", f"one={fixed}", "--onnx", f"any={dynamic}", "--target", "cpu", "-k", "onnx and fp32")
    collected = collect(*options, "--batches", "1,64", "--deployment", "max_batch_size=64")
    assert collected.cases("test_offline") == {
        "cpu-any-onnx-fp32-b001-c001",
        "cpu-any-onnx-fp32-b064-c001",
        "cpu-one-onnx-fp32-b001-c001",
    }


def test_missing_onnx_package_is_an_error_of_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens on a fleet's controller, which collects tests without any framework."""
    monkeypatch.setattr("fixtures.run.models.find_spec", lambda _name: None)
    run_settings = settings(onnx=[f"net={networks.linear(tmp_path / 'net.onnx')}"])

    with pytest.raises(InputError) as raised, models_of(run_settings):
        pass
    assert raised.value.where == "--onnx net"


@pytest.mark.parametrize("name", ["a b", "my-a100", "resnet50"])
def test_invalid_network_name_is_refused(name: str, tmp_path: Path) -> None:
    run_settings = settings(onnx=[f"{name}={networks.linear(tmp_path / 'net.onnx')}"])

    with pytest.raises(InputError) as raised, models_of(run_settings):
        pass
    assert raised.value.where.startswith(f"--onnx {name}")
