"""An unavailable fleet is refused at once."""

import socket
import sys

import pytest

from fixtures.errors import InputError, SetupError
from fixtures.fleet import cluster
from tests.helpers import Collect


@pytest.mark.parametrize(
    "address",
    [
        *("nonsense", "ray://host", "host:", ":1", "a b:c"),
        *("..:6379", f"{'x' * 64}:6379", "\u202e:6379"),
        "nobody listens",
    ],
)
def test_bad_or_unreachable_address_is_refused(address: str) -> None:
    if address == "nobody listens":
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"

    with pytest.raises(InputError, check=lambda error: error.where.startswith("--fleet ")):
        cluster.check_answers(address)


def test_missing_ray_names_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(SetupError, check=lambda error: "tox run -e fleet" in error.fix):
        cluster.ray_module()


@pytest.mark.parametrize("given", [("--against", "HEAD"), ("--against-triton", "embedded"), ("-n", "2")])
def test_single_machine_option_is_refused(given: tuple[str, ...], collect: Collect) -> None:
    """Left out silently, a comparison would look like one that found nothing."""
    found = collect("--fleet", "local", "--target", "cpu", *given)

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert f"where: --fleet {given[0]}" in found.text
