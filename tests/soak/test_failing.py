"""A copy of a model that fails at the end of its load, on a real server."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from fixtures.errors import NotAvailableError, ProofError
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from fixtures.soak.failing import load_in_vain, write_failing
from tests.serve.programs import process_of
from tests.user_models.repositories import ENSEMBLE, code, config, contents, write_model


def test_copy_fails_after_loading_and_model_stays(tmp_path: Path) -> None:
    marker = tmp_path / "loaded"
    own = (
        code("values") + f"\n    def initialize(self, args):\n        open({str(marker)!r}, 'a').write('x')\n"
    )
    model = write_model(tmp_path / "user", "doubler", own, config())
    before, repository = contents(tmp_path / "user"), tmp_path / "models"
    write_model(repository, "doubler", own, config())
    with serve(Choice("embedded"), repository, tmp_path / "log", device="cpu", completes=True) as server:
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
    found = text_format.Parse((copy / "config.pbtxt").read_text(), ModelConfig())
    assert (found.name, len(found.output)) == (copy.name, 2)
    assert (copy / "1" / "model.onnx").read_bytes() == b"network"


def test_ensemble_has_no_failing_copy(tmp_path: Path) -> None:
    own = text_format.Parse(config(more=ENSEMBLE), ModelConfig())
    with pytest.raises(NotAvailableError):
        write_failing(tmp_path, own, tmp_path)
