"""A server that answers questions about its models with what cannot be is refused in a sentence, before anything is run."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from tritonclient.grpc import model_config_pb2 as mc
from tritonclient.grpc import service_pb2 as pb

from fixtures.errors import InputError, ProofError
from fixtures.given.repository import FoundModel
from fixtures.serve.found_models import load_found, loaded_on
from fixtures.serve.remote import connect
from fixtures.serve.server import Server

Answers = Mapping[str, Any]
"""What a server answers to each question, by its name in the protocol; bytes go out as they are."""


def config(*, dtype: int = mc.TYPE_FP32, length: int = 4, dimensions: int = 1) -> Any:
    found = mc.ModelConfig(name="m", backend="python", max_batch_size=4)
    found.output.add(name="Y", data_type=mc.TYPE_FP32, dims=[4])
    found.input.add(name="X", data_type=mc.TYPE_FP32, dims=[length] * dimensions)
    content = pb.ModelConfigResponse(config=found).SerializeToString()
    # The client's own enumeration takes no other number.
    return content.replace(b"X\x10" + bytes([mc.TYPE_FP32]), b"X\x10" + bytes([dtype]))


def models(*versions: str, name: str = "m", count: int = 1) -> Any:
    kind = pb.RepositoryIndexResponse.ModelIndex
    names = [name, *(f"{name}{number}" for number in range(1, count))]
    found = [kind(name=one, version=version, state="READY") for one in names for version in versions]
    return pb.RepositoryIndexResponse(models=found)


HONEST: Answers = {
    "ServerReady": pb.ServerReadyResponse(ready=True),
    "ServerMetadata": pb.ServerMetadataResponse(name="triton", version="2.51.0"),
    "RepositoryIndex": models("1", "2", "10"),
    "ModelConfig": config(),
}


@pytest.fixture
def answering() -> Iterator[Callable[..., Server]]:
    """`answering(ModelConfig=...)`: the connection to a server that gives other answers than an honest one to some questions;
    None refuses."""
    started: list[Any] = []

    def start(**lies: Any) -> Server:
        answers = {**HONEST, **lies}

        def answer(name: str, context: Any) -> bytes:
            found = answers.get(name)
            if found is None:
                context.abort(grpc.StatusCode.INTERNAL, "\x1b[31mno\nway" * 5000)
            assert found is not None
            return found if isinstance(found, bytes) else bytes(found.SerializeToString())

        class Handler(grpc.GenericRpcHandler):
            def service(self, details: Any) -> Any:
                name = details.method.rpartition("/")[2]
                return grpc.unary_unary_rpc_method_handler(lambda _request, context: answer(name, context))

        server = grpc.server(ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((Handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        started.append(server)
        found = connect(f"127.0.0.1:{port}")
        started.append(found.client)
        return found

    yield start
    for one in reversed(started):
        one.stop(None) if hasattr(one, "stop") else one.close()


def test_the_models_of_an_honest_server_are_found(answering: Callable[..., Server]) -> None:
    server = answering()

    assert [one.name for one in loaded_on(server)] == ["m"]
    assert load_found(server, FoundModel("m", None, None), {}).versions == ("1", "2", "10")


@pytest.mark.parametrize(
    "lie",
    [
        {"RepositoryIndex": None},
        {"RepositoryIndex": b"\xff" * 50},
        {"RepositoryIndex": models("1", name="\x1b[31m")},
        {"RepositoryIndex": models("1", name="m" * 1000)},
        {"RepositoryIndex": models("1", count=20_000)},
        {"ModelConfig": None},
        {"ModelConfig": b"\xff" * 50},
        {"ModelConfig": config(dtype=99)},
        {"ModelConfig": config(length=-2)},
        {"ModelConfig": config(dimensions=40)},
    ],
    ids=[
        "no index",
        "noise",
        "a name",
        "a long name",
        "many models",
        "no configuration",
        "noise there",
        "a type",
        "a length",
        "dimensions",
    ],
)
def test_models_that_cannot_be_are_refused_with_the_server_s_address(
    lie: Answers, answering: Callable[..., Server]
) -> None:
    server = answering(**lie)

    with pytest.raises(InputError, match=f"--triton {server.address}") as raised:
        loaded_on(server)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("version", ["abc", "1.5", "-1", "²", "9" * 5000, "\x1b[31m"])
def test_a_version_that_is_no_number_is_refused(version: str, answering: Callable[..., Server]) -> None:
    server = answering(RepositoryIndex=models("1", version))

    with pytest.raises(ProofError, match="no number") as raised:
        load_found(server, FoundModel("m", None, None), {})
    assert len(str(raised.value)) < 1000


def test_what_a_server_calls_its_version_fits_into_a_record(answering: Callable[..., Server]) -> None:
    said = pb.ServerMetadataResponse(name="triton", version="\x1b[31m" + "9" * 1_000_000)

    server = answering(ServerMetadata=said)

    assert "\x1b" not in server.version
    assert len(server.version) <= 200


@pytest.mark.parametrize("answer", [None, b"\xff" * 50], ids=["refused", "noise"])
def test_counts_that_a_server_does_not_give_are_said_to_be_missing(
    answer: object, answering: Callable[..., Server]
) -> None:
    server = answering(ModelStatistics=answer)

    with pytest.raises(ProofError, match="does not say what it has counted"):
        server.statistics("m")
