"""What models and formats of a framework share: checkpoints, running, converting. Here is what all share: how
exporters and ONNX Runtime are kept quiet, and which line of their errors matters."""

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator

NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
"""What each process is told that may import ONNX Runtime: this one, those it starts, and containers."""

# ONNX Runtime for Linux reports its use to its vendor from 1.29 on, and leaves a file of it in the temporary
# folder. It reads this when it is imported; what it can be told later is too late for what it does then.
os.environ.update(NO_TELEMETRY)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep an exporter's progress and advice off the terminal; its errors still come as exceptions."""
    logging.disable(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def error_line(text: str) -> str:
    """The line of a long message that says what is wrong: a compiler's first error, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if " error: " in line), lines[0] if lines else "no reason was given")
