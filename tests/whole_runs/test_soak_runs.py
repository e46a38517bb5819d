"""A whole run soaks a user's leaking model."""

from pathlib import Path

import pytest

from reports.record import files
from tests.measure.timed_server import write_echoing
from tests.soak.leaking import LEAKS
from tests.whole_runs.suite import suite

pytestmark = pytest.mark.campaign


def test_leaking_model_fails_with_recorded_size(tmp_path: Path) -> None:
    write_echoing(tmp_path / "models", "leaky", request=LEAKS["1 KiB"])
    options = ("--repository", str(tmp_path / "models"), "--soak", "30s", "-k", "soak")

    done = suite(*options, results=tmp_path / "results")

    assert done.status == 11, done.text
    (record,) = files.read_all(tmp_path / "results")
    assert record.soak is not None
    (leak,) = [growth for growth in record.soak.growth if growth.verdict == "failed"]
    assert leak.what == "memory of its stubs"
    assert leak.slope.high > 1024
