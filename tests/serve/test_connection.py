"""Answers are limited and checked, busy servers waited for, and every request ended; and all connections of
the suite reach a real Triton that needs TLS or a header."""

import contextlib
import dataclasses
import functools
import itertools
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2 as mc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException

from tests import toy
from tests.helpers import grpc_server, settings
from tests.serve.programs import HANG_S, VALUES, doubled_by, serve_everybody
from tritonproof.base.errors import InputError, NotAvailableError, ProofError, SetupError
from tritonproof.build.builds import CaseBuild
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import ServedModel
from tritonproof.client.shared_memory import shared_region
from tritonproof.client.streams import StreamedRequest, converse
from tritonproof.host.processor_use import CpuTime
from tritonproof.measure import perf_analyzer
from tritonproof.measure.passes import LoadJob
from tritonproof.record.speed import LoadPoint
from tritonproof.serve import connection, kinds
from tritonproof.serve.connection import ServerAccess, grpc_client, wait_while_busy
from tritonproof.serve.described_model import list_entries, load_and_describe
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_build
from tritonproof.serve.remote import check_accepts_models, connect
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Tensor
from tritonproof.user_models.model_from_config import as_model
from tritonproof.user_models.model_repository import RepositoryEntry

FOUND = RepositoryEntry("m", None, None)
IDLE_S = 0.05


def config(*, dtype: int = mc.TYPE_FP32, length: int = 4, dimensions: int = 1) -> Any:
    model_config = mc.ModelConfig(name="m", backend="python", max_batch_size=4)
    model_config.output.add(name="Y", data_type=mc.TYPE_FP32, dims=[4])
    model_config.input.add(name="X", data_type=mc.TYPE_FP32, dims=[length] * dimensions)
    content = pb.ModelConfigResponse(config=model_config).SerializeToString()
    # The client's own enumeration accepts no unknown data type.
    return content.replace(b"X\x10" + bytes([mc.TYPE_FP32]), b"X\x10" + bytes([dtype]))


def models(*versions: str, name: str = "m") -> Any:
    kind = pb.RepositoryIndexResponse.ModelIndex
    entries = [kind(name=name, version=version, state="READY") for version in versions]
    return pb.RepositoryIndexResponse(models=entries)


HONEST: Mapping[str, Any] = {
    "ServerReady": pb.ServerReadyResponse(ready=True),
    "ModelStatistics": pb.ModelStatisticsResponse(),
    "ServerMetadata": pb.ServerMetadataResponse(name="triton", version="2.51.0"),
    "RepositoryIndex": models("1", "2", "10"),
    "ModelConfig": config(),
}
"""A server's answer to each call, by its name in the protocol; bytes are sent unchanged."""
UNKNOWN_CALL = grpc.StatusCode.UNIMPLEMENTED


def metadata(*, datatype: str = "FP32", input_shape: Sequence[int] = (-1, 4), outputs: int = 1) -> Any:
    answer = pb.ModelMetadataResponse(name="m")
    answer.inputs.add(name="X", datatype=datatype, shape=input_shape)
    for _ in range(outputs):
        answer.outputs.add(name="Y", datatype="BYTES", shape=[-1])
    return answer


def reply(result: Any, _request: Any, context: grpc.ServicerContext) -> Any:
    result = result() if callable(result) else result
    if isinstance(result, grpc.StatusCode):
        context.abort(result, "no such call")
    if result is None:
        context.abort(grpc.StatusCode.INTERNAL, "\x1b[31mno\nway" * 5000)
    return result


Start = Callable[..., Server]


@pytest.fixture
def answering() -> Iterator[Start]:
    """`answering(ModelConfig=...)`: a connection to a server with these answers; None is a refusal."""
    with contextlib.ExitStack() as stack:

        def start(**lies: Any) -> Server:
            answers = {name: functools.partial(reply, result) for name, result in {**HONEST, **lies}.items()}
            address, _ = stack.enter_context(grpc_server(answers))
            server = connect(ServerSpec("remote", address))
            stack.enter_context(contextlib.closing(server.client))
            return server

        yield start


@pytest.mark.parametrize(
    "lie",
    [
        {"RepositoryIndex": None},
        {"RepositoryIndex": models()},
        {"RepositoryIndex": models("1", name="\x1b[31m")},
        {"ModelConfig": b"\xff" * 50},
        {"ModelConfig": config(dtype=99)},
        {"ModelConfig": config(length=-2)},
        {"ModelConfig": config(dimensions=40)},
    ],
)
def test_impossible_models_are_refused_with_server_address(lie: Mapping[str, Any], answering: Start) -> None:
    server = answering(**lie)
    with pytest.raises(InputError, check=lambda error: error.where == f"--triton {server.address}") as raised:
        list_entries(server)
    assert "\x1b" not in str(raised.value)


LONG = "\x1b[31m" + "9" * 1_000_000


def test_nonnumeric_version_is_cut_and_made_visible(answering: Start) -> None:
    first, version = load_and_describe(answering(RepositoryIndex=models("1", LONG)), FOUND, {}).versions
    assert first == "1"
    assert len(version) <= 100
    assert "\x1b" not in version


def test_models_of_server_are_listed_and_its_version_is_cleaned(answering: Start) -> None:
    about = {"name": "ours", "version": LONG, "extensions": ["model_configuration"]}
    server = answering(ServerMetadata=pb.ServerMetadataResponse(**about))
    assert "\x1b" not in server.version
    assert len(server.version) <= 200
    assert [entry.name for entry in list_entries(server)] == ["m"]
    assert load_and_describe(server, FOUND, {}).versions == ("1", "2", "10")


@pytest.fixture
def other(answering: Start) -> Start:
    """A server with only the mandatory part of the protocol."""
    server_metadata = pb.ServerMetadataResponse(name="mlserver", version="1.7.1")
    lacking = ["ModelConfig", "ModelStatistics", "RepositoryIndex", "RepositoryModelUnload"]
    own = {"ServerMetadata": server_metadata, "ModelMetadata": metadata()}
    return functools.partial(answering, **dict.fromkeys(lacking, UNKNOWN_CALL), **own)


def test_other_server_is_described_by_its_metadata_and_loads_no_models(other: Start) -> None:
    server = other()
    assert server.version == "mlserver 1.7.1"
    (model,) = map(as_model, list_entries(server, ["m"]))
    assert model.inputs == (Tensor("X", "FP32", (4,)),)
    assert model.outputs == (Tensor("Y", "BYTES", ()),)
    assert model.batched
    described = load_and_describe(server, FOUND, {})
    assert (described.versions, described.unreported) == ((), ("configuration", "statistics"))
    with pytest.raises(NotAvailableError):
        perf_analyzer.check_measurable(server, described.unreported)
    with pytest.raises(SetupError, check=lambda error: error.where == f"--triton {server.address}"):
        check_accepts_models(ServerSpec("remote", server.address))
    # Without a leading dynamic axis it has no batches.
    (model,) = map(as_model, list_entries(other(ModelMetadata=metadata(input_shape=(1, -1))), ["m"]))
    assert (model.batched, model.inputs[0].shape, model.outputs[0].shape) == (False, (1, -1), (-1,))


@pytest.mark.parametrize("answer", [UNKNOWN_CALL, metadata(datatype="FP8"), metadata(outputs=0), None])
def test_metadata_without_a_valid_model_is_refused(answer: Any, other: Start) -> None:
    server = other(ModelMetadata=answer)
    with pytest.raises(SetupError, check=lambda error: error.where == f"--triton {server.address}"):
        list_entries(server, ["m"])


def test_models_of_a_server_without_index_must_be_named(other: Start) -> None:
    with pytest.raises(SetupError, check=lambda error: "--repository remote:" in str(error.fix)):
        list_entries(other())
    listed = pb.RepositoryIndexResponse.ModelIndex(name="m", state="State.READY")  # MLServer's spelling
    assert list_entries(other(RepositoryIndex=pb.RepositoryIndexResponse(models=[listed])))


def test_oversized_answer_is_read_only_if_it_has_tensors(
    answering: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is lower than usual: usual sizes take seconds to send."""
    monkeypatch.setattr(connection, "MAX_REPORT_BYTES", 2**20)
    larger = pb.ServerMetadataResponse(version="v" * (2**20 + 1)).SerializeToString()
    values = np.ones((1, 2**18 + 1), np.float32)
    answer = pb.ModelInferResponse(raw_output_contents=[values.tobytes()])
    answer.outputs.add(name="Y", datatype="FP32", shape=values.shape)
    server = answering(ModelConfig=larger, ModelStatistics=larger, ModelInfer=answer)
    for query in (list_entries, Server.statistics, lambda _server: answering(ServerMetadata=larger)):
        with pytest.raises(ProofError, match="larger than max") as raised:
            query(server)
        assert len(str(raised.value)) < 1000
    result = server.client.infer("m", [], client_timeout=HANG_S)
    assert result.as_numpy("Y").nbytes == values.nbytes


QUESTIONS: Mapping[str, Callable[[Server], object]] = {
    "ServerLive": lambda server: server.is_live(),
    "ModelStatistics": lambda server: server.statistics(),
    "ModelConfig": lambda server: load_and_describe(server, FOUND, {}),
    "RepositoryModelUnload": lambda server: server.unload("m"),
    "SystemSharedMemoryRegister": lambda server: shared_region(server, 4096, "m").__enter__(),
    "SystemSharedMemoryUnregister": lambda server: perf_analyzer.forget_shared_memory(
        dataclasses.replace(server, spec=ServerSpec("embedded"))
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_unresponsive_server_is_given_up(
    question: str, answering: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, ended, answered = threading.Event(), threading.Event(), threading.Event()

    def stall() -> None:
        reached.set()
        ended.wait(HANG_S)

    server = answering(**{question: stall})
    monkeypatch.setattr(connection, "ANSWER_S", 0.2)

    def ask() -> None:
        with contextlib.suppress(ProofError, InferenceServerException):
            QUESTIONS[question](server)
        answered.set()

    threading.Thread(target=ask, daemon=True).start()
    try:
        assert answered.wait(HANG_S)
        assert reached.is_set()
    finally:
        ended.set()


def clock_of(cores: Iterator[float]) -> Callable[[int | None], Callable[[], CpuTime]]:
    """The clock of a server that keeps `next(cores)` cores busy in each successive interval."""
    return lambda _pid: lambda: CpuTime(10.0, 0.0, 10.0 * next(cores), 20.0, 0.0)


def test_busy_server_is_waited_for_and_idle_one_given_up() -> None:
    answered, never = threading.Event(), threading.Event()

    def cores() -> Iterator[float]:
        yield from (1.0, 0.3, 0.02)
        answered.set()
        yield from itertools.repeat(1.0)

    assert wait_while_busy(lambda: answered.wait(HANG_S), 1, IDLE_S, clock_of(cores()))
    with pytest.raises(connection.HangsError):
        wait_while_busy(lambda: never.wait(HANG_S), 1, IDLE_S, clock_of(itertools.repeat(0.001)))
    assert not wait_while_busy(lambda: never.wait(5 * IDLE_S), None, IDLE_S), "its processes are not visible"
    never.set()
    with pytest.raises(ZeroDivisionError):
        wait_while_busy(lambda: 1 / 0, 1, IDLE_S)


SECRET = "a-secret-of-this-test"
KEPT = f"--grpc-restricted-protocol=inference,health,metadata,model-repository,statistics:key={SECRET}"
"""With this option Triton refuses every request without the header."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate of this host, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    file, key = folder / "server.pem", folder / "server.key"
    names = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", file, *names)
    subprocess.run(new, check=True, capture_output=True)
    return file, key


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("headers") / "headers.txt"
    file.write_text(f"# of this test\n\nTriton-Grpc-Protocol-Key: {SECRET}\n")
    return file


@contextlib.contextmanager
def encrypting(
    models: Path, certificate: tuple[Path, Path], log: Path, headers: Path | None = None
) -> Iterator[Server]:
    """A Triton that needs TLS, and perhaps the header."""
    file, key = certificate
    options = ["--grpc-use-ssl=1", f"--grpc-server-cert={file}", f"--grpc-server-key={key}"]
    options += [KEPT] if headers else []
    access, setup = ServerAccess(True, file, headers), ServerSetup(models, log, "cpu", options=options)
    with pytest.MonkeyPatch.context() as patch:
        by_tls = functools.partial(grpc_client, access=dataclasses.replace(access, header_file=None))
        patch.setattr(connection, "grpc_client", by_tls)
        patch.setattr(kinds, "KEY_HEADERS", dict(access.metadata))
        with serve_everybody(ServerSpec("embedded"), setup) as server:
            patch.undo()
            yield dataclasses.replace(server, spec=dataclasses.replace(server.spec, access=access))


@pytest.fixture(scope="module")
def encrypted(models: Path, certificate: tuple[Path, Path], headers: Path) -> Iterator[Server]:
    with encrypting(models, certificate, headers.with_name("log"), headers) as server:
        yield server


@contextlib.contextmanager
def job_of(server: Server, built: CaseBuild) -> Iterator[LoadJob]:
    model, point = built.case.model, LoadPoint("online", 1, 2)
    with input_data(model, toy.samples_of({model.inputs[0].name: VALUES}), None) as data:
        yield LoadJob(ServedModel(server, server.name_of(built.case), model, data), point, "none")


def test_all_requests_use_tls_and_headers(encrypted: Server, doubling: CaseBuild, tmp_path: Path) -> None:
    spec = ServerSpec("remote", encrypted.address, encrypted.spec.access)
    with serve(spec, ServerSetup(tmp_path, tmp_path / "log", "cpu")) as server:
        load_build(server, doubling, toy.ONLINE)
        assert doubled_by(server, doubling)
        assert server.name_of(doubling.case) in {entry.name for entry in server.statistics()}
        model = dataclasses.replace(doubling.case.model, name=server.name_of(doubling.case))
        ((answer,),) = converse(server, model, [StreamedRequest({model.inputs[0].name: VALUES[:1]})])
        assert (answer[model.outputs[0].name] == 2 * VALUES[:1]).all()
        with job_of(server, doubling) as job:
            assert not isinstance(job.served.responses([[0]])[0], str)
            assert len(job.served.ask([[0], [1]], 2)) == 2
            with pytest.raises(NotAvailableError):
                perf_analyzer.check_measurable(server)  # perf_analyzer sends no headers


def test_load_runs_over_tls(
    models: Path, certificate: tuple[Path, Path], doubling: CaseBuild, tmp_path: Path
) -> None:
    with encrypting(models, certificate, tmp_path / "log") as server:
        load_build(server, doubling, toy.ONLINE)
        perf_analyzer.check_measurable(server)
        with job_of(server, doubling) as job:
            run = perf_analyzer.run_pass(job, 0.1)
        assert len(run.all_latencies_ms) > 10


def test_access_without_certificate_or_header_is_refused(
    encrypted: Server, headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 2.0)
    without_certificate = ServerAccess(tls=True, header_file=headers)
    without_header = dataclasses.replace(encrypted.spec.access, header_file=None)
    for access in (ServerAccess(), ServerAccess(tls=True), without_certificate, without_header):
        with pytest.raises(SetupError, check=lambda error: error.where.endswith(encrypted.address)) as raised:
            connect(ServerSpec("remote", encrypted.address, access))
        assert SECRET not in str(raised.value)


def test_options_set_server_access(certificate: tuple[Path, Path], headers: Path) -> None:
    file, _ = certificate
    parsed = settings(triton="grpcs://host:443", triton_ca=str(file), triton_headers=str(headers))
    assert parsed.triton.access == ServerAccess(tls=True, ca=file, header_file=headers)
    assert SECRET not in repr(parsed)
    assert SECRET not in " ".join(parsed.command_line())
    with pytest.raises(InputError, check=lambda error: str(headers) in str(error.where)):
        settings(triton="grpcs://host:443", triton_ca=str(headers))  # which has no certificates


@pytest.mark.parametrize(
    "line", ["no header", "name with spaces: x", "grpc-timeout: 1S", "x-bin: AA", "x: caf\u00e9", "x: a\x07"]
)
def test_invalid_header_line_is_named_but_not_shown(line: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"authorization: Bearer {SECRET}\n{line} {SECRET}\n")
    with pytest.raises(InputError, check=lambda error: error.where == f"{file}, line 2") as raised:
        connection.headers_in(file)
    assert SECRET not in str(raised.value)


def test_access_option_needs_a_matching_server(certificate: tuple[Path, Path], headers: Path) -> None:
    files = {"triton_ca": str(certificate[0]), "triton_headers": str(headers)}
    pairs = (("host:443", "triton_ca"), ("embedded", "triton_ca"), ("embedded", "triton_headers"))
    for triton, option in pairs:
        with pytest.raises(InputError) as raised:
            settings(triton=triton, **{option: files[option]})
        assert raised.value.where == f"--{option.replace('_', '-')} --triton {triton}"
