"""A proxy between this machine and a server elsewhere."""

import pytest

from fixtures.doctor import network
from fixtures.serve.launch import Choice
from tests.doctor.findings import states

ELSEWHERE = Choice("remote", "triton.example:8001")


def test_a_proxy_on_the_way_to_a_server_elsewhere_is_a_warning() -> None:
    found = network.proxies(ELSEWHERE, {"http_proxy": "http://user:secret@proxy:3128"})

    assert found is not None
    assert states(found) == ["warning"]
    assert "http_proxy" in found.found
    assert "secret" not in found.found + found.cure
    assert "no_proxy=triton.example" in found.cure


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"http_proxy": ""},
        {"HTTP_PROXY": "http://proxy:3128"},
        {"http_proxy": "http://proxy:3128", "no_proxy": "localhost, .example"},
        {"http_proxy": "http://proxy:3128", "no_grpc_proxy": "triton.example"},
    ],
)
def test_a_proxy_that_requests_do_not_take_is_none(environment: dict[str, str]) -> None:
    found = network.proxies(ELSEWHERE, environment)

    assert found is not None
    assert states(found) == ["ok"]


@pytest.mark.parametrize(
    "choice", [Choice("embedded"), Choice("docker", "image"), Choice("remote", "[::1]:8001")]
)
def test_no_proxy_stands_before_a_server_on_this_host(choice: Choice) -> None:
    assert network.proxies(choice, {"http_proxy": "http://proxy:3128"}) is None
