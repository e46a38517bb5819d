"""The commands that messages suggest fit a checkout or an installation."""

import pytest

from reports.record import commands


@pytest.mark.parametrize(
    ("call", "checkout", "installed"),
    [
        (lambda: commands.run(), ".venv/bin/tox run -e benchmarks", "tritonproof run"),
        (lambda: commands.run("-k x"), ".venv/bin/tox run -e benchmarks -- -k x", "tritonproof run -k x"),
        (lambda: commands.tool("reports", "html"), "python -m reports html", "tritonproof report html"),
        (lambda: commands.tool("fixtures.new"), "python -m fixtures.new", "tritonproof new"),
        (lambda: commands.install("server"), "pip install '.[server]'", "pip install 'tritonproof[server]'"),
        (
            lambda: commands.packages(),
            ".venv/bin/tox run -e benchmarks",
            "pip install 'tritonproof[models,cpu]'",
        ),
        (
            lambda: commands.packages("benchmarks-gpu-trt", anew=True),
            ".venv/bin/tox run -r -e benchmarks-gpu-trt",
            "pip install 'tritonproof[models,gpu,trt]' in a new environment",
        ),
        (
            lambda: commands.packages("benchmarks-gpu-cuda12-trt"),
            ".venv/bin/tox run -e benchmarks-gpu-cuda12-trt",
            "pip install 'tritonproof[models,gpu-cuda12,trt-cuda12]' --extra-index-url "
            "https://download.pytorch.org/whl/cu126",
        ),
    ],
)
def test_commands_suit_checkout_or_installation(
    call: object, checkout: str, installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(call)
    monkeypatch.setattr("sys.executable", "python")
    assert call() == checkout
    monkeypatch.setattr(commands, "IS_INSTALLED", True)
    assert call() == installed
