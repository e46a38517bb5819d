"""Long load and repeated loading on a simulated clock, and a failing loading on a real server."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from fixtures.errors import NotAvailableError, ProofError
from fixtures.measure.job import GeneratorRun, Job
from fixtures.measure.usage import Usage
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import ServerSpec
from fixtures.soak import (
    FEWEST,
    UnderLoad,
    end_over_begin,
    keep_loaded,
    load_again,
    load_in_vain,
    record_entry,
    write_failing,
)
from fixtures.spec import LoadPoint
from reports.record.schema import Soak
from tests import toy
from tests.serve.programs import process_of
from tests.user_models.repositories import ENSEMBLE, code, config, contents, write_model

POINT = LoadPoint("online", 1, 4)


@dataclass
class Machine:
    """A server on a simulated clock that leaks so many bytes per request."""

    leak: float = 0.0
    left_behind: float = 0.0
    """Bytes that each loading leaks."""
    load_s: float = 1.0
    now_s: float = 0.0
    answered: int = 0
    loadings: int = 0
    runs: dict[float, GeneratorRun] = field(default_factory=dict)

    def run_pass(self, job: Job, window_s: float) -> GeneratorRun:
        if window_s not in self.runs:
            self.runs[window_s] = toy.LoadGenerator().run_pass(job, window_s)
        run = self.runs[window_s]
        self.now_s += 3 * window_s + 0.1
        self.answered += len(run.timeline.ends)
        return run

    def read(self) -> Usage:
        used = 1e8 + self.leak * self.answered + self.left_behind * self.loadings
        return {"memory of the server": used, "threads": 40.0}

    def load(self) -> None:
        self.now_s += self.load_s
        self.loadings += 1

    def keep_loaded(self, duration_s: float) -> UnderLoad:
        own: dict[str, Any] = {"answered": lambda: self.answered, "clock": lambda: self.now_s}
        return keep_loaded(toy.job(POINT), duration_s, self.read, run_pass=self.run_pass, **own)

    def soak(self, duration_s: float) -> Soak:
        loaded = self.keep_loaded(duration_s)
        loadings = load_again(self.load, duration_s, self.read, clock=lambda: self.now_s)
        return record_entry(POINT, loaded, {"loading": loadings})


def verdicts(soak: Soak) -> set[tuple[str, str]]:
    return {(growth.what, growth.per) for growth in soak.growth if growth.verdict == "failed"}


@pytest.mark.parametrize("duration_s", [60.0, 600.0])
def test_soak_lasts_as_asked_with_enough_passes(duration_s: float) -> None:
    machine = Machine()

    loaded = machine.keep_loaded(duration_s)

    assert duration_s <= loaded.duration_s < 1.1 * duration_s
    assert len(loaded.used) >= 2 * FEWEST["request"]
    assert loaded.times[-1] == machine.answered


def test_request_and_loading_leaks_are_distinguished() -> None:
    assert verdicts(Machine().soak(60.0)) == set()
    assert verdicts(Machine(leak=1024.0).soak(60.0)) == {("memory of the server", "request")}
    assert verdicts(Machine(left_behind=8e6).soak(60.0)) == {("memory of the server", "loading")}


def test_slow_loading_reports_number_of_loadings() -> None:
    machine = Machine(load_s=30.0)

    soak = machine.soak(300.0)

    assert soak.loadings == machine.loadings == 3
    assert not any(growth.per == "loading" for growth in soak.growth)
    assert "3 of" in soak.not_watched[0]


def test_slowdown_is_found_and_slow_start_ignored() -> None:
    steady = [100.0, 101.0, 99.0, 100.5] * 20

    slower = end_over_begin([*steady, *(0.8 * rate for rate in steady)])
    warmed = end_over_begin([*(0.5 * rate for rate in steady[:20]), *steady[20:]])

    assert slower is not None
    assert slower.high < 0.9
    assert warmed is not None
    assert warmed.low <= 1.0 <= warmed.high
    assert end_over_begin(steady[:8]) is None


def test_copy_fails_after_loading_and_model_stays(tmp_path: Path) -> None:
    marker = tmp_path / "loaded"
    initialize = f"\n    def initialize(self, args):\n        open({str(marker)!r}, 'a').write('x')\n"
    own = code("values") + initialize
    model = write_model(tmp_path / "user", "doubler", own, config())
    before, repository = contents(tmp_path / "user"), tmp_path / "models"
    write_model(repository, "doubler", own, config())
    with serve(
        ServerSpec("embedded"), repository, tmp_path / "log", device="cpu", auto_complete=True
    ) as server:
        server.load_as_found(repository / "doubler")
        as_served = server.client.get_model_config("doubler").config
        copy = write_failing(model, as_served, repository)
        for _time in range(2):
            load_in_vain(server, copy)
        assert marker.read_text() == "xxx", "the copy loads all that the model does"
        assert server.client.is_model_ready("doubler")
        assert not server.client.is_model_ready(copy.name)
        harmless = write_model(repository, "harmless", code("values"), config())
        with pytest.raises(NotAvailableError):
            load_in_vain(server, harmless)
        assert not server.client.is_model_ready("harmless")
        process_of(server).kill()
        with pytest.raises(ProofError):
            load_in_vain(server, copy)
    assert contents(tmp_path / "user") == before


def test_copy_for_other_backend_declares_a_missing_output(tmp_path: Path) -> None:
    own = text_format.Parse(config(more='backend: "onnxruntime"'), ModelConfig())
    model = write_model(tmp_path / "user", "m", None, config())
    (model / "1" / "model.onnx").write_bytes(b"network")
    (tmp_path / "models").mkdir()
    copy = write_failing(model, own, tmp_path / "models")
    copied = text_format.Parse((copy / "config.pbtxt").read_text(), ModelConfig())
    assert (copied.name, len(copied.output)) == (copy.name, 2)
    assert (copy / "1" / "model.onnx").read_bytes() == b"network"
    ensemble = text_format.Parse(config(more=ENSEMBLE), ModelConfig())
    with pytest.raises(NotAvailableError):
        write_failing(tmp_path, ensemble, tmp_path)
