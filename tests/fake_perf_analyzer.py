"""A fake perf_analyzer that behaves as a test plans."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec

LATENCY_MS = 10

FAKE = f"""\
#!{sys.executable} -S
# Behaves like perf_analyzer, each call as the next word of its plan says; the last word holds for all later calls.
import json, os, sys, time
from pathlib import Path

folder, arguments = Path(__file__).parent, sys.argv[1:]
calls = folder / "calls.jsonl"
number = len(calls.read_text().splitlines()) if calls.exists() else 0
after = lambda option: arguments[arguments.index(option) + 1]
data = Path(after("--input-data"))
intervals_us = [int(line) for line in open(after("--request-intervals"))] if "--request-intervals" in arguments else []
with calls.open("a") as file:
    held = json.loads(data.read_text())["data"]
    call = {{"arguments": arguments, "data": held, "intervals_us": intervals_us}}
    file.write(json.dumps(call | {{"arenas": os.environ.get("MALLOC_ARENA_MAX")}}) + "\\n")
plan = (folder / "plan").read_text().split()
behaviour = plan[min(number, len(plan) - 1)]
window_ns = int(after("--measurement-interval")) * 12 * 10**5
concurrency = 0 if intervals_us else int(after("--concurrency-range"))

if behaviour == "hang":
    time.sleep(600)
if behaviour == "killed":
    os.kill(os.getpid(), 9)
ends = {{
    "no-requests": ("No valid requests recorded within time interval. Please use a larger time window.", 3),
    "unstable": ("Failed to obtain stable measurement.", 2),
    "refused": ("error: the output does not fit", 99),
}}
if behaviour in ends:
    said, status = ends[behaviour]
    print(said)
    sys.exit(status)

latency_ns, opened = {LATENCY_MS} * 10**6 * (10 if behaviour == "long" else 1), 10**18
requests = [
    {{"timestamp": opened + client + n * latency_ns, "response_timestamps": [opened + client + (n + 1) * latency_ns]}}
    for client in range(concurrency)
    for n in range((3 * window_ns - client) // latency_ns)
]
due = opened
for interval_us in intervals_us[1:]:
    if due + latency_ns > opened + 3 * window_ns:
        break
    requests.append({{"timestamp": due, "response_timestamps": [due + latency_ns]}})
    due += interval_us * 1000
if behaviour == "backwards":
    requests[3]["response_timestamps"] = [requests[3]["timestamp"] - 1]
if behaviour == "unanswered":
    requests = [request | {{"response_timestamps": []}} for request in requests]
stood_still_ns = 5 * 10**9 if behaviour == "stopped" else 0
windows = [opened + n * window_ns + (n == 3) * stood_still_ns for n in range(4)]
text = json.dumps({{"experiments": [{{"requests": requests, "window_boundaries": windows}}]}})
text = {{"empty": "", "cut": (text * 50)[:65536]}}.get(behaviour, text)
Path(after("--profile-export-file")).write_text(text)
table = (
    "Concurrency,Inferences/Second,p99 latency,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,"
    "Server Compute Output,Client Recv\\n{{}},405.5,10500,100,200,300,400,8000,600,400\\n"
).format(concurrency)
table = {{"cut-table": table[:60], "no-numbers": table.replace("8000", "nan")}}.get(behaviour, table)
Path(after("-f")).write_text(table)
"""


class FakePerfAnalyzer:
    """The fake perf_analyzer in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "perf_analyzer"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)

    def plan(self, *behaviours: str) -> None:
        """Set the behaviour of each call; the last one holds for all later calls."""
        self.program.with_name("plan").write_text(" ".join(behaviours))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The arguments and load data of each call."""
        calls = self.program.with_name("calls.jsonl")
        return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    def windows_ms(self) -> list[int]:
        """The window of each call: 1.2 times its measurement interval."""
        return [round(1.2 * int(option(call, "--measurement-interval"))) for call in self.calls]


def option(call: dict[str, Any], name: str) -> str:
    arguments: list[str] = call["arguments"]
    return arguments[arguments.index(name) + 1]


def server_of(folder: Path, *, live: bool = True) -> Server:
    """A server that does not run; its client's `forgotten` says which memory was unregistered."""
    log, forgotten = folder / "server.log", list[str]()
    log.write_text("began\nthe last words\n")
    client = SimpleNamespace(
        is_server_live=lambda **_options: live,
        unregister_system_shared_memory=lambda **_options: forgotten.append("system"),
        unregister_cuda_shared_memory=lambda **_options: forgotten.append("cuda"),
        forgotten=forgotten,
    )
    return Server(ServerSpec("embedded"), "127.0.0.1:1", "2.51.0", log, client)
