"""Helpers for tests of servers: requests, processes and ports, and scripts that replace a server."""

from pathlib import Path

import numpy as np
import psutil

from fixtures.build.repository import BuiltModel
from fixtures.serve.server import Server
from tests.helpers import command_line, program_name

HANG_S = 60.0
"""Bounds a hang; even on a busy machine each wait takes only a few seconds."""
VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)


def doubled_by(server: Server, built: BuiltModel) -> bool:
    """Whether the loaded model doubles its input."""
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
    """The port of such a server for http, grpc or metrics."""
    options = dict(part.split("=", 1) for part in process_of(server).cmdline() if "=" in part)
    return int(options[f"--{service}-port"])


def script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
