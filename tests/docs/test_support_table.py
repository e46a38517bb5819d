"""The support table claims only what records prove, and its page is up to date."""

from pathlib import Path

import pytest
from msgspec import structs

from docs import support_table
from fixtures.models import all_models
from reports.record.schema import Case, Record, Serving
from reports.text.publishable import publishable
from tests import examples

ROOT = Path(__file__).parents[2]


def row(table: str, model: str, format_: str) -> list[str]:
    """The cells of a model and format, one for each server."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return next(line[2:] for line in lines if line[:2] == [f"`{model}`", format_])


def proof(**changes: object) -> Record:
    """A correct record of ResNet50 at micro size, served by the suite's runtime on a CPU."""
    case = Case("cpu", "resnet50-micro", "onnx", None, "fp32")
    return examples.record(case=case, **changes)


def test_record_proves_only_its_cell() -> None:
    table = support_table.support_table([publishable(proof())])

    assert row(table, "resnet50", "`onnx`")[0] == "FP32: runs; INT8: not run"
    assert table.count("runs") == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"accuracy": examples.failed_accuracy()}, id="wrong"),
        pytest.param({"serving": None}, id="never served"),
        pytest.param({"serving": Serving("local", "2.51.0", "onnxruntime", "system")}, id="another server"),
    ],
)
def test_wrong_or_unserved_case_proves_nothing(changes: dict[str, object]) -> None:
    table = support_table.support_table([publishable(proof(**changes))])

    assert row(table, "resnet50", "`onnx`")[0] == "FP32, INT8: not run"


def test_native_backend_has_own_column() -> None:
    served = Serving("local", "2.51.0", "onnxruntime", "system")
    gpu = structs.replace(proof(serving=served), case=Case("h200", "resnet50", "onnx", None, "fp16"))

    assert row(support_table.support_table([publishable(gpu)]), "resnet50", "`onnx`")[2:] == [
        "FP32, FP16: not run",
        "FP32: not run; FP16: runs, Triton 2.51.0",
    ]


def test_native_cpu_cells_list_triton_versions() -> None:
    served = [Serving("local", version, "onnxruntime", "system") for version in ("2.53.0", "2.51.0")]
    table = support_table.support_table([publishable(proof(serving=serving)) for serving in served])

    assert row(table, "resnet50", "`onnx`")[1] == "FP32: runs, Triton 2.51.0, 2.53.0; INT8: not run"


def test_full_models_have_rows_and_exclusions_reasons() -> None:
    table = support_table.support_table([])

    for model in all_models():
        assert (f"`{model.name}`" in table) is not model.micro
        for mnemonic, reason in model.excluded.items():
            if not model.micro:
                assert row(table, model.name, f"`{mnemonic}`")[0] == f"none: {reason}"


def test_support_page_holds_generated_table() -> None:
    assert support_table.main([str(ROOT / "docs" / "support.md"), "--check"]) == 0
