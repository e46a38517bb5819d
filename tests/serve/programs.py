"""What the tests of servers ask of them, and programs that pass for a server."""

from pathlib import Path

import numpy as np
import psutil

from fixtures.build.repository import BuiltModel
from fixtures.serve.server import Server
from tests.helpers import command_line, program_name

HANG_S = 60.0
"""Bounds a hang; on a busy machine what is waited for takes a few seconds."""
VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)


def doubled_by(server: Server, built: BuiltModel) -> bool:
    """Whether the loaded model, which is to double its input, does."""
    (answer,) = server.infer(
        server.name_of(built.case), built.case.model, {built.case.model.inputs[0].name: VALUES}
    ).values()
    return bool((answer == 2 * VALUES).all())


def process_of(server: Server) -> psutil.Process:
    """The process of a server that this test session started."""
    option = f"--grpc-port={server.address.rpartition(':')[2]}"
    (server_process,) = (
        process
        for process in psutil.Process().children(recursive=True)
        if program_name(process) == "tritonserver" and option in command_line(process)
    )
    return server_process


def port_of(server: Server, service: str) -> int:
    """The port at which such a server offers http, grpc or metrics."""
    options = dict(part.split("=", 1) for part in process_of(server).cmdline() if "=" in part)
    return int(options[f"--{service}-port"])


def script(path: Path, text: str) -> Path:
    """A program of a few lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
