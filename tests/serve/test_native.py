"""Triton's native backends answer like the in-process runtimes, also after reloads.

No wheel has them: TRITONPROOF_TRITON names a tritonserver with these backends, as in NVIDIA's containers.
"""

import dataclasses
from pathlib import Path

import pytest

from fixtures.build import repository
from fixtures.build.runtimes import open_in_process
from fixtures.cases import cases_of, matrix_of
from fixtures.host.targets import CPU
from fixtures.serve.backends import backend_library, local_backends, server_variables
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice, parse_choice
from fixtures.spec import Case
from tests.build.conversions import no_samples
from tests.conftest import NATIVE_PROGRAM
from tests.toy import compare_conversion

pytestmark = pytest.mark.skipif(
    NATIVE_PROGRAM is None,
    reason="needs a Triton with native backends: set TRITONPROOF_TRITON to the path of its tritonserver",
)
CASES = [
    case
    for case in cases_of(CPU)
    if case.model.micro
    and case.precision == "fp32"
    and case.format.mnemonic in ("onnx", "ts-trace", "ts-script")
]


@pytest.fixture(scope="module")
def choice() -> Choice:
    return parse_choice(f"local:{NATIVE_PROGRAM}")


@pytest.fixture(scope="module", params=CASES, ids=str)
def native(request: pytest.FixtureRequest, choice: Choice) -> Case:
    """A micro model in a format whose backend the server has."""
    case: Case = request.param
    if not backend_library(local_backends(choice.detail), case.format.backend).is_file():
        pytest.skip(f"{choice.detail} has no {case.format.backend} backend")
    if reason := case.format.missing("cpu", None, case.precision):
        pytest.skip(reason)
    return case


def test_native_backend_matches_in_process_after_reloads(
    native: Case, choice: Choice, tmp_path: Path
) -> None:
    framework, deployment = native.model.load(None), matrix_of(native.model, CPU).deployment
    root = tmp_path / "native"
    built = repository.build(native, framework, deployment, root, native=True, calibration=no_samples)
    samples = native.model.samples("evaluation", None, None)
    run = open_in_process(native, built.artifact, deployment)
    beside = dataclasses.replace(
        native, model=dataclasses.replace(native.model, run=lambda _network, inputs: run(inputs))
    )
    variables = server_variables(choice, native, deployment)
    with serve(choice, built.folder.parent, tmp_path / "log", device="cpu", variables=variables) as server:
        for scenario in ("offline", "online", "offline"):
            assert server.load(built, deployment, scenario) == native.format.backend
            for batch in (1, min(8, deployment.max_batch_size)):
                parity = compare_conversion(
                    beside,
                    framework,
                    lambda inputs: server.infer(str(native), native.model, inputs),
                    dataclasses.replace(samples, ids=samples.ids[:8]),
                    batch,
                )
                assert parity.passed, parity
