"""A fleet that cannot be had says why, and what to do."""

import socket

import pytest

from fixtures.errors import InputError, SetupError
from fixtures.fleet import cluster
from tests.helpers import Collect


def unused_address() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "address",
    [
        *("nonsense", "ray://host", "host:", ":1", "a b:c"),
        *("..:6379", f"{'x' * 64}:6379", "\u202e:6379"),
        "nobody listens",
    ],
)
def test_what_is_no_address_and_one_at_which_nothing_answers_is_refused_at_once(address: str) -> None:
    with pytest.raises(InputError) as raised:
        cluster.check_answers(unused_address() if address == "nobody listens" else address)
    assert "--fleet" in raised.value.where
    assert raised.value.fix


def test_without_ray_the_environment_that_has_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(SetupError) as raised:
        cluster.ray_module()
    assert "tox run -e fleet" in raised.value.fix


@pytest.mark.parametrize("given", [("--against", "HEAD"), ("--against-triton", "embedded")])
def test_an_option_for_one_machine_is_refused_before_a_cluster_is_asked(
    given: tuple[str, ...], collect: Collect
) -> None:
    """Left out silently, a comparison would look like one that found nothing."""
    found = collect("--fleet", "local", "--target", "cpu", *given)

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert f"where: --fleet {given[0]}" in found.text
