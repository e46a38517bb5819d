"""Runs a build's runtime, or for the machine's peak peak_runtime.py, in a process that waits for requests."""

import contextlib
import io
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from msgspec import structs

from tritonproof.accuracy.precisions import arithmetic_precision
from tritonproof.base.errors import ProofError
from tritonproof.build.builds import CaseBuild
from tritonproof.build.runtime_files import engine_folder, runtime_inputs, runtime_settings, tf32_setting
from tritonproof.efficiency import peak_runtime
from tritonproof.host import machine
from tritonproof.host.process import guarded, how_ended, indented_lines, last_lines, minimal_environment
from tritonproof.host.scratch import report_full_disk, scratch_folder
from tritonproof.measure.estimates import geometric_mean
from tritonproof.record import fields, setup
from tritonproof.serve.connection import LOADING_S, REQUEST_S
from tritonproof.spec import Arrays, Case, Device

_WORKER = Path(__file__).with_name("worker_main.py")
_PEAK_S, _PEAK_READINGS = 0.2, 5
"""Seconds of products in a reading of the peak, and how many readings count, after one that does not."""


class PeakKind(NamedTuple):
    """What a machine's peak depends on; the `precision` is tf32 for FP32 that is computed in TF32."""

    device: Device
    precision: str


@dataclass
class Worker:
    """A process that has loaded a runtime and waits for requests."""

    what: str
    """What the process runs, for messages."""
    threads: int
    spinning: bool
    """Whether idle threads of ONNX Runtime spin."""
    gpus: int
    """The number of GPUs that serve the artifact; the process runs on one, whose rate counts for each."""
    process: "subprocess.Popen[bytes]"
    log: IO[bytes]
    """The output of the process, a file without a name, as the guard removes files with one."""
    folder: Path
    """The folder of the process's input and pipes, which is removed when the process ends."""
    requests: IO[bytes]
    """The pipe of requests to run batches, one line of JSON each."""
    answers: IO[bytes]
    """The pipe of answers, one line of JSON each."""

    def measure_per_s(self, batch: int, min_s: float, min_batches: int) -> float:
        """Inferences per second, `batch` at a time, of at least `min_batches` batches in at least `min_s`
        seconds. Raises ProofError."""
        answer = self._run(batch, min_s, min_batches)
        return self.gpus * float(answer["batches"] / answer["seconds"]) * batch

    def most_per_s(self, min_s: float) -> float:
        """The rate of the fastest batch, of size 1, within `min_s` seconds. Raises ProofError."""
        return float(1 / self._run(1, min_s, 1)["shortest"])

    def _run(self, batch: int, min_s: float, min_batches: int) -> dict[str, Any]:
        request = {"batch": batch, "seconds": min_s, "min_batches": min_batches}
        self.requests.write(json.dumps(request).encode() + b"\n")
        return self._answer(REQUEST_S + min_s)

    def wait_ready(self) -> None:
        """Wait until the runtime is loaded, as long as for a server's model. Raises ProofError with the end
        of the log if that fails."""
        self._answer(LOADING_S)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        deadline, problem = time.monotonic() + limit_s, ""
        while not problem and not select.select([self.answers], [], [], 0.1)[0]:
            if (status := self.process.poll()) is not None:
                problem = how_ended(status)
            elif time.monotonic() > deadline:
                problem = f"gave no answer within {limit_s:.0f} s"
        if problem:
            log_end = indented_lines(last_lines(self.log, 12))
            raise ProofError(
                f"the process that runs it beside the server {problem}{log_end}",
                where=self.what,
                fix="test_conversion runs the same code; see whether it passes, and whether memory is enough "
                "for both",
            )
        return dict(json.loads(self.answers.readline()))


def artifact_worker(
    build: CaseBuild,
    deployment: setup.Deployment,
    samples: Arrays,
    *,
    backend: str = "python",
    resident: bool = False,
) -> contextlib.AbstractContextManager[Worker]:
    """A build's own runtime in a process of its own, with the threads of all its instances together.

    A batch takes the first of `samples`, inputs by name, [samples, ...] each, and wraps after the last. On a
    GPU each batch is copied there, and its answers back, unless it is `resident`, as with CUDA shared memory.
    Idle threads spin here if the served `backend` is Triton's ONNX Runtime, where they always spin.
    """
    case = build.case
    engines = engine_folder(case, build.facts.digest)
    settings = runtime_settings(case, structs.replace(deployment, instances=1), engines)
    settings["device"] = case.target.device
    if backend == "onnxruntime":
        settings["spinning"] = "1"
    # TensorRT as accelerator builds one engine for all sizes between these, as in the server's warm-up; an
    # engine for the measured batch alone would be faster than the served one.
    first = (1, deployment.max_batch_size) if case.accelerator else ()
    task = {"runtime": str(build.artifact.with_name("runtime.py")), "artifact": str(build.artifact)}
    rows = runtime_inputs(case.model, samples)
    return worker_process(
        str(case), {**task, "resident": resident, "first": first}, settings, rows, case.gpus
    )


@contextlib.contextmanager
def worker_process(
    label: str,
    task: Mapping[str, Any],
    settings: Mapping[str, str],
    rows: Sequence[np.ndarray],
    gpus: int = 1,
) -> Iterator[Worker]:
    """A started worker, for the length of the block; worker_main.py says what its `task` holds."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_folder("process"))
        files = [str(folder / f"{index}.npy") for index in range(len(rows))]
        whole_task = {**task, "settings": {**settings, "device_id": "0"}, "inputs": files}
        with report_full_disk(folder):
            for file, values in zip(files, rows, strict=True):
                content = io.BytesIO()  # NumPy's error for a file that it writes itself does not say why
                np.save(content, values)
                Path(file).write_bytes(content.getbuffer())
            (folder / "task.json").write_text(json.dumps(whole_task))
        pipes = []
        for name in ("requests", "answers"):
            os.mkfifo(folder / name)
            # Each pipe is open for both directions, so that neither end waits for the other to open it.
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
            pipes.append(stack.enter_context(os.fdopen(descriptor, "r+b", buffering=0)))
        log = stack.enter_context(tempfile.TemporaryFile())
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if settings["device"] == "cpu" else {}
        process = stack.enter_context(
            guarded(
                [sys.executable, str(_WORKER), str(folder)],
                environment=minimal_environment() | hidden,
                output=log,
                grace_s=1.0,
                remove=folder,
            )
        )
        threads, spinning = int(settings["threads"]), settings.get("spinning") == "1"
        yield Worker(label, threads, spinning, gpus, process, log, folder, *pipes)


def peak_kind(case: Case, deployment: setup.Deployment) -> PeakKind:
    return PeakKind(case.target.device, arithmetic_precision(case, deployment))


def measure_peak_per_s(kind: PeakKind) -> fields.Estimate:
    """The machine's peak: operations per second of the fastest product or convolution. Raises ProofError."""
    size = peak_runtime.SIZE[kind.device]
    is_tf32 = kind.precision == "tf32"
    settings = {"precision": "fp32" if is_tf32 else kind.precision, **tf32_setting(is_tf32)}
    settings |= {"threads": str(machine.cores()), "size": str(size), "device": kind.device}
    label = f"the {kind.precision.upper()} computation that gives the machine's peak"
    task = {"runtime": peak_runtime.__file__, "artifact": "", "resident": False, "first": ()}
    with worker_process(label, task, settings, []) as peak_worker:
        peak_worker.wait_ready()
        _first, *rates = [peak_worker.most_per_s(_PEAK_S) for _reading in range(1 + _PEAK_READINGS)]
    return geometric_mean([rate * peak_runtime.operations(size) for rate in rates])
