"""Helpers for tests of servers: requests, processes and ports, and scripts that replace a server."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
import pytest

from tests.helpers import command_line, program_name
from tritonproof.base.errors import ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.serve import wheels
from tritonproof.serve.container import REPOSITORY, prepare_image
from tritonproof.serve.kinds import ContainerImage, Ports, ServerProgram
from tritonproof.serve.launch import KINDS, serve
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Device

IMAGE = f"{REPOSITORY}:24.10-py3"
"""The image with the Triton of the embedded one."""
HANG_S = 60.0
"""Bounds a hang; even on a busy machine each wait takes only a few seconds."""
VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)


def doubled_by(server: Server, built: CaseBuild) -> bool:
    """Whether the loaded model doubles its input."""
    model = built.case.model
    (answer,) = server.infer(server.name_of(built.case), model, {model.inputs[0].name: VALUES}).values()
    return bool((answer == 2 * VALUES).all())


def program_of(spec: ServerSpec, folder: Path, shared_memory: str = "system") -> ServerProgram:
    """What would be started in this folder."""
    setup = ServerSetup(folder / "models", folder / "log", "cpu", shared_memory)
    return KINDS[spec.kind].program_of(spec, setup, Ports(1, 2, 3), folder)


@contextlib.contextmanager
def serve_everybody(spec: ServerSpec, setup: ServerSetup) -> Iterator[Server]:
    """A server that demands no key, as those that others run."""
    kind = KINDS[spec.kind]

    def keyless(*start: Any) -> ServerProgram:
        program = kind.program_of(*start)
        arguments = [part for part in program.arguments if "tritonproof-key" not in part]
        return dataclasses.replace(program, arguments=arguments)

    with contextlib.ExitStack() as stack:
        with patch.dict(KINDS, {spec.kind: dataclasses.replace(kind, program_of=keyless)}):
            server = stack.enter_context(serve(spec, setup))
        yield server


def process_of(server: Server) -> psutil.Process:
    """The process of a server that this test session started."""
    option = f"--grpc-port={server.address.rpartition(':')[2]}"
    children = psutil.Process().children(recursive=True)
    servers = [process for process in children if program_name(process) == "tritonserver"]
    (server_process,) = [process for process in servers if option in command_line(process)]
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


def installed_triton(folder: Path, options: str = "", variables: str = "") -> Path:
    """The embedded Triton in the layout of an installed one, which finds its own libraries: its program, which
    adds these options and variables."""
    wheels.backend_folder(folder)
    libraries = f'LD_LIBRARY_PATH="{wheels.triton_libraries()}:$LD_LIBRARY_PATH"'
    command = f'exec "{wheels.embedded_triton()}/bin/tritonserver" "$@" {options}'
    return script(folder / "bin" / "tritonserver", f"export {libraries} {variables}\n{command}")


class FakeDocker:
    """A fake docker on PATH, whose containers end at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.say({})
        text = f'''printf '%s\\n' "$@" END >> "{folder}/calls"
case "$1" in
    info) cat "{folder}/engine.json" ;;
    image) cat "{folder}/about.json" ;;
    run) echo "no such image"; exit 125 ;;
esac'''
        script(folder / "bin" / "docker", text)

    def say(self, about: object, engine: object = None) -> None:
        """Answer so to `docker image inspect`, and to `docker info`."""
        (self.folder / "about.json").write_text(json.dumps([about]))
        (self.folder / "engine.json").write_text(json.dumps(engine or {}))

    @property
    def calls(self) -> list[list[str]]:
        return [call.splitlines() for call in (self.folder / "calls").read_text().split("END\n")[:-1]]

    def start(self, image: str = IMAGE, device: Device = "cpu", **options: Any) -> None:
        """Start a container that ends at once."""
        spec, paths = ServerSpec("docker", image), (self.folder / "models", self.folder / "log")
        setup = ServerSetup(*paths, device, **options)
        with pytest.raises(ProofError, match="no such image"), serve(spec, setup):
            pass

    def prepare(self, image: str, device: Device = "cpu") -> ContainerImage:
        return prepare_image(ServerSpec("docker", image), device)
