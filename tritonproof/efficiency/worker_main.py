"""Runs a build's own runtime in a process of its own, for as long as each request says, and idles in between.

    python worker_main.py FOLDER

FOLDER/task.json names the runtime, its artifact and settings, a file for each input, whether inputs are
resident in the GPU's memory, and the sizes of batches to run first. FOLDER/requests and FOLDER/answers are
named pipes that the caller holds open. For each line of JSON on the first, {batch, seconds, min_batches},
this program writes a line to the second, {batches, seconds, shortest}, with the seconds of the shortest
batch; an empty first answer says that the runtime is loaded. It imports only NumPy and the runtime's own
packages, so that nothing else shares the process.
"""

import itertools
import json
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def main(folder: Path) -> None:
    """Load the runtime, then answer until the pipe closes or the process is killed."""
    task = json.loads((folder / "task.json").read_text())
    rows = [np.load(path, allow_pickle=True) for path in task["inputs"]]  # the caller pickled texts
    with (folder / "requests").open() as requests, (folder / "answers").open("w") as answers:
        predict = runpy.run_path(task["runtime"])["load"](Path(task["artifact"]), task["settings"])
        batch_of: Callable[[Any], Any] = list
        if task["settings"].get("tensors") == "torch":
            is_resident = task["settings"]["device"] == "cpu" or task["resident"]
            predict, batch_of = on_tensors(predict, task["settings"]["device"], is_resident=is_resident)

        def run_batches(size: int, min_s: float, min_batches: int) -> list[float]:
            batch = batch_of(row[np.arange(size) % len(row)] for row in rows)
            return time_batches(predict, batch, min_s, min_batches)

        for size in task["first"]:
            run_batches(size, 0, 1)
        print("{}", file=answers, flush=True)
        for line in requests:
            request = json.loads(line)
            seconds = run_batches(request["batch"], request["seconds"], request["min_batches"])
            answer = {"batches": len(seconds), "seconds": sum(seconds), "shortest": min(seconds)}
            print(json.dumps(answer), file=answers, flush=True)


def on_tensors(
    predict: Callable[[Any], Any], device: str, *, is_resident: bool
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """A runtime's function on PyTorch's tensors, and one that makes its batch from arrays. A resident batch
    lies on the device, and so do its answers. Otherwise both are copied each time, through pinned memory, as
    for clients with tensors in the host's memory; the next batch is copied while one is computed."""
    import torch

    def on_device(arrays: Any) -> list[Any]:
        return [torch.from_numpy(array).to(device) for array in arrays]

    def pinned(arrays: Any) -> list[Any]:
        return [torch.from_numpy(array).pin_memory() for array in arrays]

    return (predict, on_device) if is_resident else (_overlapped(predict), pinned)


def _overlapped(predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function on pinned tensors that copies the next batch as it computes; answers reuse their memory."""
    import torch

    copies = torch.cuda.Stream()
    ahead: list[Any] = []
    buffers: dict[int, Any] = {}

    def start_copy(batch: list[Any]) -> Any:
        with torch.cuda.stream(copies):
            copied = [tensor.to("cuda", non_blocking=True) for tensor in batch]
            return batch, copied, copies.record_event()

    def run(batch: list[Any]) -> list[Any]:
        # Another load point brings a batch of another size.
        if not ahead or ahead[0][0] is not batch:
            ahead[:] = [start_copy(batch)]
        _batch, inputs, is_copied = ahead.pop()
        ahead.append(start_copy(batch))
        compute = torch.cuda.current_stream()
        compute.wait_event(is_copied)
        for tensor in inputs:
            # Keep the tensor's memory from being reused while this stream still reads the tensor.
            tensor.record_stream(compute)
        answers = []
        for index, result in enumerate(predict(inputs)):
            if index not in buffers or buffers[index].shape != result.shape:
                buffers[index] = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
            answers.append(buffers[index].copy_(result, non_blocking=True))
        compute.synchronize()
        return answers

    return run


def time_batches(predict: Callable[[Any], Any], batch: Any, min_s: float, min_batches: int) -> list[float]:
    """Seconds of each batch, one after the other: at least `min_batches`, for at least `min_s` seconds."""
    times = [time.perf_counter()]
    while len(times) <= min_batches or times[-1] - times[0] < min_s:
        predict(batch)
        times.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(times)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
