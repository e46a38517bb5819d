"""A network for the runs that any model will do for."""

import pytest

from tests.faults.classifier import write_network


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The options of a run of the case GIVEN."""
    path = tmp_path_factory.mktemp("given") / "classifier.onnx"
    write_network(path)
    return ("--onnx", f"classifier={path}")
