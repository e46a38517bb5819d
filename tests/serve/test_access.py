"""All connections of the suite, to a real Triton that needs TLS or a header."""

import dataclasses
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fixtures.build.repository import BuiltModel
from fixtures.consistency.served import send
from fixtures.errors import InputError, NotAvailableError, SetupError
from fixtures.measure import perf_analyzer
from fixtures.measure.job import Job
from fixtures.measure.load_data import input_data
from fixtures.measure.requests import request_for
from fixtures.measure.verifying import ask_once
from fixtures.serve import launch
from fixtures.serve.connection import Access, grpc_client, headers_in
from fixtures.serve.launch import serve
from fixtures.serve.remote import connect
from fixtures.serve.replay import Message, converse
from fixtures.serve.server import Server
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint, Samples
from tests.conftest import DEPLOYMENT
from tests.helpers import settings
from tests.serve.programs import VALUES, doubled_by

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


@pytest.fixture(scope="module")
def encrypted(
    models: Path, certificate: tuple[Path, Path], headers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A Triton that needs TLS and the header."""
    file, key = certificate
    options = ("--grpc-use-ssl=1", f"--grpc-server-cert={file}", f"--grpc-server-key={key}", KEPT)
    access = Access(tls=True, ca=file, header_file=headers)
    log = tmp_path_factory.mktemp("logs") / "server.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "grpc_client", functools.partial(grpc_client, access=access))
        with serve(
            Choice("embedded"), models, log, device="cpu", open_to_all=True, options=options
        ) as server:
            yield dataclasses.replace(server, access=access)


def job_of(server: Server, built: BuiltModel, data: object) -> Job:
    point = LoadPoint("online", 1, 2)
    return Job(server, server.name_of(built.case), built.case.model, point, "none", data)  # type: ignore[arg-type]


def test_all_requests_use_tls_and_headers(encrypted: Server, doubling: BuiltModel, tmp_path: Path) -> None:
    choice = Choice("remote", encrypted.address, encrypted.access)
    with serve(choice, tmp_path, tmp_path / "log", device="cpu") as server:
        server.load(doubling, DEPLOYMENT, "online")
        assert doubled_by(server, doubling)
        assert server.name_of(doubling.case) in {entry.name for entry in server.statistics()}
        model = dataclasses.replace(doubling.case.model, name=server.name_of(doubling.case))
        ((answer,),) = converse(server, model, [Message({model.inputs[0].name: VALUES[:1]})])
        assert (answer[model.outputs[0].name] == 2 * VALUES[:1]).all()
        rows = {model.inputs[0].name: np.concatenate([VALUES, VALUES])}
        samples = Samples(
            ["a", "b", "c", "d"], lambda indices: {name: values[indices] for name, values in rows.items()}
        )
        with input_data(model, samples, None) as data:
            job = job_of(server, doubling, data)
            assert send(job, [request_for(job, data.inputs([0]))])[0].response is not None
            assert len(ask_once(job, [np.array([0]), np.array([1])])) == 2
            with pytest.raises(NotAvailableError):
                server.check_load()  # perf_analyzer sends no headers


def test_load_runs_over_tls(
    models: Path, certificate: tuple[Path, Path], doubling: BuiltModel, tmp_path: Path
) -> None:
    file, key = certificate
    options = ("--grpc-use-ssl=1", f"--grpc-server-cert={file}", f"--grpc-server-key={key}")
    access = Access(tls=True, ca=file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "grpc_client", functools.partial(grpc_client, access=access))
        with serve(
            *(Choice("embedded"), models, tmp_path / "log"), device="cpu", open_to_all=True, options=options
        ) as started:
            server = dataclasses.replace(started, access=access)
            server.load(doubling, DEPLOYMENT, "online")
            server.check_load()
            rows = {doubling.case.model.inputs[0].name: VALUES}
            samples = Samples(
                ["a", "b"], lambda indices: {name: values[indices] for name, values in rows.items()}
            )
            with input_data(doubling.case.model, samples, None) as data:
                run = perf_analyzer.take(job_of(server, doubling, data), 0.1)
            assert len(run.latencies_s) > 10


def test_unauthenticated_server_is_refused(encrypted: Server, headers: Path) -> None:
    for access in (Access(), Access(tls=True), Access(tls=True, header_file=headers)):
        with pytest.raises(SetupError, check=lambda error: error.where.endswith(encrypted.address)) as raised:
            connect(encrypted.address, access, answer_s=2.0)
        assert SECRET not in str(raised.value)


def test_missing_headers_are_refused(encrypted: Server) -> None:
    with pytest.raises(SetupError):
        connect(encrypted.address, dataclasses.replace(encrypted.access, header_file=None), answer_s=2.0)


def test_options_set_server_access(certificate: tuple[Path, Path], headers: Path) -> None:
    file, _ = certificate
    parsed = settings(triton="grpcs://host:443", triton_ca=str(file), triton_headers=str(headers))
    assert parsed.triton.access == Access(tls=True, ca=file, header_file=headers)
    assert SECRET not in repr(parsed)
    assert SECRET not in " ".join(parsed.command_line())


@pytest.mark.parametrize(
    "line",
    ["no header", "name with spaces: x", "grpc-timeout: 1S", "x-bin: AA", "x: caf\u00e9", ": x", "x: a\x07"],
)
def test_invalid_header_line_is_named_but_not_shown(line: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"authorization: Bearer {SECRET}\n{line} {SECRET}\n")
    with pytest.raises(InputError, check=lambda error: error.where == f"{file}, line 2") as raised:
        headers_in(file)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("triton", "option"),
    [("host:443", "triton_ca"), ("embedded", "triton_ca"), ("embedded", "triton_headers")],
)
def test_access_option_needs_a_matching_server(
    triton: str, option: str, certificate: tuple[Path, Path], headers: Path
) -> None:
    files = {"triton_ca": certificate[0], "triton_headers": headers}
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(InputError, check=lambda error: error.where == f"{flag} --triton {triton}"):
        settings(triton=triton, **{option: str(files[option])})


def test_file_without_certificates_is_refused(headers: Path) -> None:
    with pytest.raises(InputError, check=lambda error: str(headers) in str(error.where)):
        settings(triton="grpcs://host:443", triton_ca=str(headers))
