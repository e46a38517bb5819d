"""A real Triton loads, runs and unloads models, and failed loads are errors with what its log says."""

import dataclasses
import http.client
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tritonclient.utils import InferenceServerException

from tests import toy
from tests.serve.programs import HANG_S, doubled_by, process_of
from tritonproof.base.errors import ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.serve import connection
from tritonproof.serve.connection import grpc_client
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_build, why_not_loaded
from tritonproof.serve.server import Server, tail_of
from tritonproof.serve.server_spec import EMBEDDED_TRITON, ServerSetup, ServerSpec


def test_model_loads_for_both_scenarios_answers_and_unloads(server: Server, doubling: CaseBuild) -> None:
    name = str(doubling.case)
    for scenario, batched in (("offline", False), ("online", True)):
        assert load_build(server, doubling, toy.ONLINE._replace(scenario=scenario)) == "python"  # type: ignore[arg-type]
        assert doubled_by(server, doubling)
        assert server.client.get_model_config(name).config.HasField("dynamic_batching") is batched
    server.unload(name)
    assert not server.client.is_model_ready(name)


def test_server_of_stated_version_listens_only_on_loopback(server: Server) -> None:
    assert server.version == EMBEDDED_TRITON
    connections = process_of(server).net_connections()
    listening = [connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN]
    assert len(listening) == 3
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_server_control_needs_the_key(server: Server, doubling: CaseBuild) -> None:
    stranger = grpc_client(server.address)
    for ask in (
        lambda: stranger.load_model(str(doubling.case)),
        lambda: stranger.unload_model(str(doubling.case)),
        stranger.get_model_repository_index,
        lambda: stranger.update_log_settings({"log_file": "/tmp/stranger"}),
        lambda: stranger.update_trace_settings(settings={"trace_file": "/tmp/stranger"}),
    ):
        with pytest.raises(InferenceServerException, match="restricted"):
            ask()
    for path in ("repository/index", f"repository/models/{doubling.case}/load", "logging", "trace/setting"):
        connection = http.client.HTTPConnection(server.http_address or "", timeout=HANG_S)
        connection.request("POST", f"/v2/{path}", body=b"{}")
        assert connection.getresponse().status == http.client.FORBIDDEN, path
        connection.close()
    load_build(server, doubling, toy.ONLINE)
    assert doubled_by(dataclasses.replace(server, client=stranger), doubling), "requests need none"
    stranger.close()


def test_tensors_of_requests_are_private(server: Server, doubling: CaseBuild) -> None:
    assert server.scratch is not None
    load_build(server, doubling, toy.ONLINE._replace(scenario="offline"))
    segments = list(Path("/dev/shm").glob(f"{server.scratch.name}*"))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (server.scratch, *segments)]
    assert segments
    assert {mode & 0o077 for mode in modes} == {0}
    assert "\nUmask:\t0077\n" in Path(f"/proc/{process_of(server).pid}/status").read_text()


def test_failed_load_is_an_error_with_end_of_log(server: Server, models: Path, doubling: CaseBuild) -> None:
    """cuDNN's refusal of a graph has 380 KB, of which gRPC's clients read 16 by default."""
    raises = "raise ValueError('upside down ' + 'x' * 380_000)"
    bad = toy.make_build(models, "bad", f"def load(artifact, parameters):\n    {raises}\n")
    with pytest.raises(ProofError, check=lambda error: error.where == str(bad.folder)) as caught:
        load_build(server, bad, toy.ONLINE)
    assert "ValueError: upside down" in caught.value.what
    assert "failed to load 'cpu-bad-raw-fp32'" in caught.value.what
    assert len(caught.value.what) < 20_000
    assert load_build(server, doubling, toy.ONLINE) == "python"


@pytest.fixture
def fresh(models: Path, tmp_path: Path) -> Iterator[Server]:
    """A server that a test may break."""
    with serve(ServerSpec("embedded"), ServerSetup(models, tmp_path / "log", "cpu")) as server:
        yield server


def test_runtime_or_server_that_dies_while_loading_is_reported(fresh: Server, models: Path) -> None:
    exiting = toy.make_build(
        models, "exiting", "import os\ndef load(artifact, parameters):\n    os._exit(3)\n"
    )
    source = "import os\ndef load(artifact, parameters):\n    os.kill(os.getppid(), 9)\n"
    deadly = toy.make_build(models, "deadly", source)
    with pytest.raises(ProofError) as caught:
        load_build(fresh, exiting, toy.ONLINE)
    if fresh.how_it_ended():
        pytest.skip("Triton's Python backend aborted with it, as on a busy machine: boost's lock_exception")
    assert "cpu-exiting-raw-fp32" in caught.value.what
    for _once_and_again in range(2):
        with pytest.raises(ProofError):
            load_build(fresh, deadly, toy.ONLINE)
        assert fresh.how_it_ended()
    assert "loading: cpu-deadly-raw-fp32" in fresh.log_tail()


def test_end_of_server_is_reported_repeatedly(fresh: Server, doubling: CaseBuild) -> None:
    load_build(fresh, doubling, toy.ONLINE)
    fresh.check_running()
    assert fresh.how_it_ended() == ""
    process_of(fresh).kill()
    with pytest.raises(ProofError, match="SIGKILL"):
        doubled_by(fresh, doubling)
    for _once_and_again in range(2):
        with pytest.raises(ProofError, match="SIGKILL"):
            fresh.check_running()


@pytest.mark.parametrize("when", ["loading", "asked"])
def test_idle_load_or_request_is_given_up_once(
    fresh: Server, models: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = {"loading": "time.sleep(600)", "asked": "return lambda arrays: time.sleep(600)"}[when]
    waiting = toy.make_build(models, when, f"import time\ndef load(artifact, parameters):\n    {code}\n")
    monkeypatch.setattr(connection, "LOADING_S", HANG_S)
    monkeypatch.setattr(connection, "IDLE_S", 2.0)
    with pytest.raises(ProofError):
        _ = load_build(fresh, waiting, toy.ONLINE), doubled_by(fresh, waiting)
    with pytest.raises(ProofError):
        fresh.check_running()
    assert fresh.stop_reason


LOG = """\
started
E1123 10:59:01.77 12 model_lifecycle.cc:642] "failed"
E1123 10:59:01.76 12 server.cc:241] "CudaDriverHelper has not been initialized."
""" + "\n".join(f'I1123 10:59:10.77 12 server.cc:604] "step {number}"' for number in range(40))
FRAMES = "".join(f"\n{number:2}# 0x00007F4AD225A050 in /lib/libc.so.6" for number in range(20))


def test_error_shows_the_errors_of_a_log_despite_later_output(tmp_path: Path) -> None:
    """The one that is usual without a GPU is none."""
    log = tmp_path / "log"
    log.write_text(f"{LOG}\n  what():  No such device.\nSignal (6) received.{FRAMES}")
    shown = tail_of(log)
    assert all(part in shown for part in ('"failed"', "step 39", "No such device", "Signal (6)"))
    assert not [part for part in ("CudaDriverHelper", "0x00007F", 'step 1"', "started") if part in shown]
    assert tail_of(None) == tail_of(tmp_path / "gone") == ""


def test_load_failure_reason_is_of_that_model(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        """\
E1124 03:18:53.9 12 manager.cc:1460] "Poll failed for model directory 'mine': no dims"
E1124 03:18:53.9 12 manager.cc:1460] "Poll failed for model directory 'yours': no backend"
I1124 03:18:55.2 12 lifecycle.cc:472] "loading: third:1"
I1124 03:18:55.2 13 pb_stub.cc:2105]  Failed to preinitialize Python stub: no file 'model.py'
I1124 03:18:56.2 12 lifecycle.cc:472] "loading: fourth:1"
"""
    )
    assert why_not_loaded(log, "yours") == "no backend"
    assert why_not_loaded(log, "third") == "no file 'model.py'"
    assert why_not_loaded(log, "fourth") == why_not_loaded(None, "mine") == ""
