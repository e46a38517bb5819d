"""The live line beside a long name: how far a step is stays legible on a terminal of 80 columns."""

import os

from fixtures.run.narrator import Narrator
from tests.run.test_narrator import Terminal


def shown(step: str, detail: str) -> str:
    """What a terminal of 80 columns shows of a step that goes on."""
    screen = Terminal(80)
    told = Narrator(screen.write_end, live=True)
    told.say(step, detail)
    (line,) = screen.seen()
    told.rest()  # before its descriptor is closed, since it writes by itself
    os.close(screen.read_end)
    os.close(screen.write_end)
    return line


def test_how_far_a_step_is_stays_legible_beside_the_long_name_of_a_case() -> None:
    line = shown(
        "cpu-resnet50-micro-onnx-fp32: measure online", "b001-c032 pass 3, 0 of 1 points, 400.0 infer/s"
    )

    assert "400.0 infer/s" in line, "the estimate is said nowhere else until the point is known"
    assert "fp32" in line, "which case it is can still be told"


def test_a_line_that_is_cut_says_so() -> None:
    assert "… 0 s" in shown("a-model: wait", "for the machine " * 9)
