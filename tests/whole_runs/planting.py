"""A pytest plugin for runs whose server is to answer wrongly: where the variable that PLANTED names is set, a few of the
served numbers are none."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy import through_server

PLANTED = "PLANTED"


def pytest_configure(config: pytest.Config) -> None:
    if not os.environ.get(PLANTED):
        return
    keep = through_server.keep_outputs

    def keep_spoilt(stage: str, model: Any, outputs: Mapping[str, Any], *arguments: Any) -> Any:
        spoilt = {name: values.copy() for name, values in outputs.items()}
        for values in spoilt.values():
            if np.issubdtype(values.dtype, np.floating):
                values[0] = np.nan
        return keep(stage, model, spoilt, *arguments)

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(through_server, "keep_outputs", keep_spoilt)
