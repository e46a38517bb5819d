"""Commands end with the exit status of a run when their arguments are wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from reports.record.commands import INPUT

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "reports", "tables"),
        ("-m", "fixtures.doctor"),
        ("-m", "fixtures.new", "mine"),
        ("-m", "fixtures.train", "resnet50-micro"),
    ],
    ids=lambda command: command[-1],
)
def test_unknown_option_ends_every_command_with_status_4(
    command: tuple[str, ...],
) -> None:
    result = subprocess.run(
        [sys.executable, *command, "--not-an-option"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == INPUT == 4
    assert "error:" in result.stderr
    assert "--not-an-option" in result.stderr
    assert "Traceback" not in result.stderr
