"""What holds while load points are measured."""

import contextlib
from types import SimpleNamespace
from typing import Any

from tests.conftest import DEPLOYMENT
from tritonproof.record.schema import LoadPoint
from tritonproof.run.loader import Loaded, Loader
from tritonproof.run.measuring import ready


def test_points_are_measured_with_the_machine_to_ourselves() -> None:
    held: Any = []
    run: Any = SimpleNamespace(
        server=SimpleNamespace(check_measurable=lambda _unreported: None),
        source=SimpleNamespace(unreported=()),
        correctness=SimpleNamespace(answer_check=None),
        loader=SimpleNamespace(load=lambda _scenario: None),
        job=lambda point, *_more: point,
        hold_machine=lambda exclusive: contextlib.nullcontext(held.append(exclusive)),
    )
    point = LoadPoint("online", 1, 4)
    with ready(run, {point: 0.001}) as jobs:
        assert (held, jobs) == ([True], [point])


def test_reloaded_case_is_cold() -> None:
    server = SimpleNamespace(unload=str, name_of=str)
    run: Any = SimpleNamespace(server=server, case="net", source=SimpleNamespace(load=lambda *_: "python"))
    loader = Loader(run, Loaded("offline", DEPLOYMENT, "onnxruntime", {}), was_under_load=True)
    loader.reload()
    assert (loader.loaded, loader.was_under_load) == (Loaded("offline", DEPLOYMENT, "python"), False)
