"""Public ONNX files get the expected verdicts."""

from pathlib import Path

import pytest

from tests.corpus import verdicts
from tests.corpus.networks import NETWORKS, Network, downloaded
from tests.corpus.verdicts import Found

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def of_packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """The findings of the networks of packages."""
    folder = tmp_path_factory.mktemp("packages")
    names = verdicts.selected(request)
    networks = [network for network in NETWORKS if network.name in names]
    unpacked = downloaded(folder, {network.package for network in networks})
    findings: dict[str, Found] = {}
    for precision in sorted({network.precision for network in networks}):
        of_precision = (network for network in networks if network.precision == precision)
        options = [word for network in of_precision for word in _options_of(network, unpacked, folder)]
        (folder / precision).mkdir()
        selection = ("-k", f"onnx and {precision}", "-m", "not speed")
        findings |= verdicts.run(folder / precision, [*options, *selection], f"onnx-{precision}").models
    return findings


def _options_of(network: Network, unpacked: Path, folder: Path) -> list[str]:
    options = ["--onnx", f"{network.name}={unpacked / network.file}", *network.options]
    if network.samples is not None:
        samples = folder / "samples" / network.name
        samples.mkdir(parents=True)
        network.samples(samples)
        options += ["--samples", f"{network.name}={samples}"]
    return options


@pytest.mark.parametrize("network", NETWORKS, ids=[entry.name for entry in NETWORKS])
def test_public_network_gets_expected_verdict(network: Network, of_packages: dict[str, Found]) -> None:
    of_packages[network.name].hold_to(network.expected)
