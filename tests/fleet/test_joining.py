"""A fleet that cannot be had says why, and what to do."""

import socket

import pytest

from fixtures.errors import InputError, SetupError
from fixtures.fleet import cluster
from tests.collecting import Collect


@pytest.mark.parametrize("address", ["nonsense", "ray://host", "host:", ":1", "a b:c"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"not the address of a Ray cluster[\s\S]*HOST:PORT"):
        cluster.check_answers(address)


def test_an_address_at_which_nothing_listens_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(InputError, match="no Ray cluster answers"):
        cluster.check_answers(f"127.0.0.1:{port}")


@pytest.mark.parametrize("host", ["..", "x" * 64, "\u202e"])
def test_a_name_that_no_host_can_have_is_refused(host: str) -> None:
    with pytest.raises(InputError, match="no Ray cluster answers"):
        cluster.check_answers(f"{host}:6379")


def test_without_ray_the_environment_that_has_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(SetupError, match="tox run -e fleet"):
        cluster.ray_module()


@pytest.mark.parametrize("given", [("--against", "HEAD"), ("--against-triton", "embedded")])
def test_an_option_for_one_machine_is_refused_before_a_cluster_is_asked(
    given: tuple[str, ...], collect: Collect
) -> None:
    """Left out silently, a comparison would look like one that found nothing."""
    found = collect("--fleet", "local", "--target", "cpu", *given)

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert f"where: --fleet {given[0]}" in found.text
