"""The commands that messages suggest fit a checkout or an installation; a wrong path ends a command."""

from collections.abc import Callable

import pytest

from tritonproof.base import commands
from tritonproof.base.commands import benchmarks_command, packages_command, tool_command
from tritonproof.reports.__main__ import main


@pytest.mark.parametrize(
    ("call", "words", "checkout", "installed"),
    [
        (benchmarks_command, ["-k x"], ".venv/bin/tox run -e benchmarks -- -k x", "tritonproof run -k x"),
        (tool_command, ["report", "html"], "python -m tritonproof report html", "tritonproof report html"),
        (packages_command, [], ".venv/bin/tox run -e benchmarks", "pip install 'tritonproof[models,cpu]'"),
        (
            packages_command,
            ["benchmarks-gpu-cuda12-trt"],
            ".venv/bin/tox run -e benchmarks-gpu-cuda12-trt",
            "pip install 'tritonproof[models,gpu-cuda12,trt-cuda12]' --extra-index-url "
            "https://download.pytorch.org/whl/cu126",
        ),
    ],
)
def test_commands_suit_checkout_or_installation(
    call: Callable[..., str], words: list[str], checkout: str, installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "python")
    assert call(*words) == checkout
    monkeypatch.setattr(commands, "IS_INSTALLED", True)
    assert call(*words) == installed


def test_empty_path_is_refused() -> None:
    with pytest.raises(SystemExit, check=lambda end: end.code == 4):
        main(["compare", ""])
