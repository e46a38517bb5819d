"""Public ONNX files and scikit-learn models get the expected verdicts."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.corpus import verdicts
from tests.corpus.networks import NETWORKS, SKLEARN, Network, downloaded
from tests.corpus.verdicts import Expected, Found

pytestmark = pytest.mark.campaign


def _run(folder: Path, options: Mapping[str, Sequence[str]], precision: str = "fp32") -> dict[str, Found]:
    """The suite's findings of networks, by name, from the options of each: first which it refuses before
    anything runs, then all others in one run."""
    selection = ("-k", f"onnx and {precision}", "-m", "not load")
    findings = {name: verdicts.refused([*words, *selection]) for name, words in options.items()}
    accepted = [word for name, words in options.items() if not findings[name].failed for word in words]
    run = verdicts.run(folder, [*accepted, *selection], f"onnx-{precision}") if accepted else None
    return {
        name: finding if finding.failed or run is None else run.models[name]
        for name, finding in findings.items()
    }


@pytest.fixture(scope="module")
def of_packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """The findings of the networks of packages."""
    folder = tmp_path_factory.mktemp("packages")
    names = verdicts.selected(request)
    networks = [network for network in NETWORKS if network.name in names]
    try:
        unpacked = downloaded(folder, {network.package for network in networks})
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the packages cannot be downloaded: {error.stderr.decode()[-300:]}")
    findings: dict[str, Found] = {}
    for precision in ("fp32", "int8"):
        options = {
            network.name: _options_of(network, unpacked, folder)
            for network in networks
            if network.precision == precision
        }
        (folder / precision).mkdir()
        findings |= _run(folder / precision, options, precision)
    return findings


def _options_of(network: Network, unpacked: Path, folder: Path) -> list[str]:
    options = ["--onnx", f"{network.name}={unpacked / network.file}", *network.options]
    if network.samples is not None:
        samples = folder / "samples" / network.name
        samples.mkdir(parents=True)
        network.samples(samples)
        options += ["--samples", f"{network.name}={samples}"]
    return options


@pytest.fixture(scope="module")
def of_sklearn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """The findings of scikit-learn's models."""
    folder = tmp_path_factory.mktemp("sklearn")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "skl2onnx==1.20.0"]
    if subprocess.run([*install, "--target", str(folder / "packages")], check=False).returncode:
        pytest.skip("skl2onnx cannot be downloaded")
    script = Path(__file__).with_name("sklearn_models.py")
    environment = {**os.environ, "PYTHONPATH": str(folder / "packages")}
    subprocess.run([sys.executable, str(script), str(folder)], env=environment, check=True)
    options = {}
    for name in SKLEARN.keys() & verdicts.selected(request):
        samples = folder / "samples" / name
        options[name] = ["--onnx", f"{name}={folder / name}.onnx", "--samples", f"{name}={samples}"]
        if (samples / "labels.npy").exists():
            options[name] += ["--labels", f"{name}={samples / 'labels.npy'}", "--metric", f"{name}=top-1"]
            options[name] += ["--floor", f"{name}=0.9"]
    return _run(folder, options)


@pytest.mark.parametrize("network", NETWORKS, ids=[entry.name for entry in NETWORKS])
def test_public_network_gets_expected_verdict(network: Network, of_packages: dict[str, Found]) -> None:
    of_packages[network.name].hold_to(network.expected)


@pytest.mark.parametrize(("model", "expected"), SKLEARN.items(), ids=SKLEARN)
def test_scikit_learn_model_gets_expected_verdict(
    model: str, expected: Expected, of_sklearn: dict[str, Found]
) -> None:
    of_sklearn[model].hold_to(expected)
