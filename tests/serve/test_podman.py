"""Container commands on a real engine: podman runs the wheel's Triton in an image that these tests make. They
need Debian's packages podman, runc, catatonit and netavark."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests import toy
from tests.helpers import ROOT, present, wait_until
from tests.serve.programs import doubled_by, script
from tritonproof.serve import kinds, wheels
from tritonproof.serve.container import check_docker, container_process
from tritonproof.serve.kinds import Ports, free_ports
from tritonproof.serve.launch import serve
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

pytestmark = pytest.mark.contract

SPEC = ServerSpec("docker", "localhost/tritonserver:24.10-py3")
VARIABLES = ("PATH=/bin", "NVIDIA_TRITON_SERVER_VERSION=24.10")
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"] # more than its own may be refused
[engine]
runtime = "runc" # crun refuses cgroups of both versions
"""


def libraries_of(program: Path, environment: dict[str, str]) -> list[Path]:
    completed = subprocess.run(["ldd", program], env=environment, capture_output=True, text=True, check=True)
    return [Path(word) for word in completed.stdout.split() if word.startswith("/")]


def write_image(folder: Path) -> Path:
    """The files of an image: Triton, its Python backend, a shell, this Python, NumPy, and their libraries."""
    environment = os.environ | {"LD_LIBRARY_PATH": f"{wheels.libpython()}:{wheels.triton_libraries()}"}
    backends = wheels.backend_folder(folder)
    (empty := folder / "empty").mkdir()
    numpy, stdlib = Path(np.__file__).parent, Path(sysconfig.get_path("stdlib"))
    programs = {
        "tritonserver": wheels.embedded_triton() / "bin" / "tritonserver",
        "python3": Path(sys.base_prefix) / "bin" / f"python{wheels.PYTHON}",
        **{name: Path(shutil.which(name) or name) for name in ("bash", "sh", "cat", "env")},
    }
    backend = [entry for entry in backends.rglob("*") if entry.suffix == ".so" or entry.name.endswith("stub")]
    needed = [path for entry in [*programs.values(), *backend] for path in libraries_of(entry, environment)]
    files = {
        **{f"/bin/{name}": path for name, path in programs.items()},
        **{f"/lib/x86_64-linux-gnu/{path.name}": path for path in needed},
        **{f"{stdlib}/{entry.name}": entry for entry in (numpy, numpy.with_name("numpy.libs"))},
        "/lib64/ld-linux-x86-64.so.2": Path("/lib64/ld-linux-x86-64.so.2"),
        str(stdlib): stdlib,
        "/opt/tritonserver/backends": backends,
        "/tmp": empty,
        "/models": empty,
    }
    left_out = tuple(f"{str(stdlib)[1:]}/{name}" for name in ("site-packages", "test", "config-"))
    archive = folder / "image.tar"
    with tarfile.open(archive, "w", dereference=True) as tar:
        for name, path in files.items():
            tar.add(path, name, filter=lambda entry: None if entry.name.startswith(left_out) else entry)
    return archive


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a program `docker`: podman with its own images and containers, and the test image."""
    folder = tmp_path_factory.mktemp("podman")
    if missing := [item for item in ("podman", "runc") if shutil.which(item) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    (folder / "containers.conf").write_text(CONFIGURATION)
    docker = folder / "docker"
    own = f'--root "{folder}/root" --runroot "{folder}/run"'
    script(docker, f'CONTAINERS_CONF="{folder}/containers.conf" exec podman {own} "$@"')
    changes = [word for item in VARIABLES for word in ("--change", f"ENV {item}")]
    command: list[str | Path] = [docker, "import", *changes, write_image(folder), SPEC.location]
    try:
        imported = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        probe = subprocess.run([docker, "run", "--rm", SPEC.location, "env"], capture_output=True, text=True)
        if imported.returncode or probe.returncode:
            pytest.skip(f"podman runs no containers here: {imported.stderr}{probe.stderr}")
        yield folder
    finally:
        subprocess.run([docker, "rmi", "--all", "--force"], capture_output=True, check=False)
        subprocess.run(["umount", folder / "root" / "overlay"], capture_output=True, check=False)


@pytest.fixture(autouse=True)
def on_path(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{engine}:{os.environ['PATH']}")


def containers() -> list[str]:
    return subprocess.check_output(["docker", "ps", "--all", "--quiet"], text=True).split()


@pytest.mark.parametrize("shared_memory", ["system", "cuda", "none"])
def test_container_serves_a_model_and_is_removed(shared_memory: str, tmp_path: Path) -> None:
    """Podman's first process is the server if it shares the host's processes, else the server's parent."""
    build = toy.make_build(tmp_path / "models", "doubling", toy.DOUBLING)
    assert check_docker().is_podman
    log, name = tmp_path / "log", str(build.case)
    with serve(SPEC, ServerSetup(tmp_path / "models", log, "cpu", shared_memory=shared_memory)) as server:
        image = present(server.program.image)
        assert (server.version, image.release, image.in_podman) == ("2.51.0", "24.10", True)
        server.client.load_model(name, client_timeout=60)
        assert doubled_by(server, build)
        assert container_process(present(server.scratch).name) is not None
        program, libraries = wheels.perf_analyzer(), {"LD_LIBRARY_PATH": wheels.perf_analyzer_libraries()}
        command = [str(program), "-m", name, "-u", server.address, "-i", "grpc", "--request-count=20"]
        if shared_memory == "system":
            command += ["--shared-memory=system", "--output-shared-memory-size=64"]
        done = subprocess.run(command, env=os.environ | libraries, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert containers() == []


def test_container_starts_despite_taken_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    with serve(SPEC, ServerSetup(tmp_path / "models", tmp_path / "log", "cpu")) as first:
        http, grpc = (int(address.rpartition(":")[2]) for address in (str(first.http_address), first.address))
        attempts = iter([Ports(http, grpc, free_ports().metrics), free_ports()])
        monkeypatch.setattr(kinds, "free_ports", lambda: next(attempts))
        with serve(SPEC, ServerSetup(tmp_path / "models", tmp_path / "log2", "cpu")) as second:
            assert second.is_live()
    assert containers() == []


SERVING = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from tritonproof.serve.launch import serve
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
folder = Path({folder!r})
with serve(ServerSpec("docker", {image!r}), ServerSetup(folder, folder / "log", "cpu")):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("client_dies", [False, True])
def test_no_container_survives_its_killed_caller(client_dies: bool, tmp_path: Path) -> None:
    source = SERVING.format(root=str(ROOT), folder=str(tmp_path), image=SPEC.location)
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as caller:
        assert present(caller.stdout).readline() == b"ready\n"
        assert len(containers()) == 1
        if client_dies:
            children = psutil.Process(caller.pid).children(recursive=True)
            (client,) = [process for process in children if process.name() == "podman"]
            client.kill()
        caller.kill()
    wait_until(lambda: not containers())
