"""Marks of what disturbed a point: each where it belongs, and none where all was well."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures.host import cpu
from fixtures.host.cpu import CpuTime
from fixtures.measure import validity
from fixtures.measure.timeline import Steady
from reports.record.schema import COMPONENTS, MARKS, CpuUse, Mark
from tests import samples

WELL = CpuUse(cores=4, load_generator=0.3, server=2.5, others=0.1, stolen=0.0)


def components(**changes: float) -> dict[str, float]:
    """Of a request that the server worked on most of the time."""
    usual = {"server_queue": 3.0, "server_compute_infer": 6.0, "network_server_send_recv": 0.5}
    return dict.fromkeys(COMPONENTS, 0.0) | usual | changes


def of_cpu(use: CpuUse = WELL, concurrency: int = 16, **changes: Any) -> list[str]:
    """Codes of the marks."""
    return codes(validity.marks_of_cpu(use, components(**changes), concurrency))


def codes(marks: Sequence[Mark]) -> list[str]:
    assert {mark.code for mark in marks} <= set(MARKS)
    return [mark.code for mark in marks]


def use(**changes: Any) -> CpuUse:
    """Cores of a point that went well, but for the changes."""
    return structs.replace(WELL, **changes)


def test_a_server_at_work_has_no_marks() -> None:
    assert of_cpu() == []
    assert of_cpu(use(server=3.6), server_queue=0.0) == []


def test_a_client_that_leaves_the_server_waiting_is_the_bottleneck() -> None:
    outside: dict[str, Any] = {
        "server_queue": 0.1,
        "server_compute_infer": 1.0,
        "network_server_send_recv": 3.0,
    }

    assert of_cpu(**outside) == ["client-bound"]
    assert of_cpu(concurrency=1, **outside) == [], "one request at a time is answered as fast as it can be"
    assert of_cpu(**outside | {"server_queue": 1.0}) == [], "requests wait for the server"
    (mark,) = validity.marks_of_cpu(WELL, components(**outside), 16)
    assert mark.text.endswith("73% of the time passed outside of the server, whose queue was empty")


def test_a_client_that_takes_the_servers_cores_is_the_bottleneck() -> None:
    assert of_cpu(use(load_generator=1.2, server=2.7)) == ["client-bound"]
    assert of_cpu(use(load_generator=1.2, server=1.0)) == [], "there are cores left"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"others": 0.5}, ["cpu-shared"]),
        ({"others": 3.0, "server": None}, []),  # the server's own share is among them
        ({"stolen": 0.3}, ["cpu-stolen"]),
        ({"others": 0.5, "stolen": 0.3}, ["cpu-shared", "cpu-stolen"]),
    ],
)
def test_cores_taken_by_others_are_marked(changes: dict[str, Any], found: list[str]) -> None:
    assert of_cpu(use(**changes)) == found


def test_the_use_of_cores_is_the_mean_over_all_passes() -> None:
    times = [CpuTime(1.0, 0.2, 1.0, 1.5, 0.0), CpuTime(3.0, 0.2, 2.0, 2.5, 0.4)]

    assert validity.cpu_use(times, 2) == CpuUse(2, 0.1, 0.75, 0.15, 0.1)


def test_a_server_elsewhere_has_no_share() -> None:
    found = validity.cpu_use([CpuTime(1.0, 0.2, None, 1.5, 0.0)], 2)

    assert (found.server, found.others) == (None, 1.3)


def test_the_clock_sees_who_works() -> None:
    """This process burns a core for a while, which is the server's share when it is watched as one."""
    import os
    import time

    read = cpu.clock(os.getpid())
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    found = read()

    assert found.server_s is not None
    assert 0.25 < found.server_s <= found.elapsed_s * len(os.sched_getaffinity(0)) + 0.1
    assert found.busy_s >= 0.25
    assert found.children_s == pytest.approx(0, abs=0.05)
    assert cpu.clock(None)().server_s is None


def test_a_process_that_ends_takes_nothing_from_the_others() -> None:
    assert cpu._since({1: 5.0, 2: 90.0}, {1: 6.0, 3: 0.5}) == pytest.approx(1.5)


def test_a_run_that_stands_back_behind_others_is_marked() -> None:
    def times(nice: int) -> list[CpuTime]:
        return [CpuTime(1.0, 0.2, 1.0, 1.5, 0.0), CpuTime(1.0, 0.2, 1.0, 1.5, 0.0, nice)]

    assert codes(validity.marks_of_priority(times(0))) == codes(validity.marks_of_priority(times(-5))) == []
    (mark,) = validity.marks_of_priority(times(5))
    assert (mark.code, "nice 5" in mark.text) == ("niced", True)


def test_the_priority_is_that_of_the_process_that_measures() -> None:
    command = [sys.executable, "-c", "from fixtures.host import cpu; print(cpu.clock(None)().nice)"]

    def of(*nice: str) -> int:
        return int(subprocess.run([*nice, *command], capture_output=True, text=True, check=True).stdout)

    assert of("nice", "-n", "3") == min(19, of() + 3)


def part(completed: float, due: int) -> Steady:
    return Steady(completed, 1.0, np.ones(10), np.zeros(10), due)


def test_a_server_behind_its_schedule_is_overloaded() -> None:
    latency_ms = samples.estimate(5.0)

    assert codes(validity.marks_of_schedule([part(97, 100), part(96, 100)], 0.1, latency_ms)) == []
    (mark,) = validity.marks_of_schedule([part(90, 100), part(70, 100)], 0.1, latency_ms)
    assert (mark.code, mark.text.endswith(": 80% of it")) == ("overloaded", True)


def test_a_schedule_may_slip_by_a_tenth_of_the_latency_or_a_millisecond() -> None:
    kept = [part(100, 100)]

    assert codes(validity.marks_of_schedule(kept, 0.9, samples.estimate(5.0))) == []
    assert codes(validity.marks_of_schedule(kept, 1.1, samples.estimate(5.0))) == ["schedule-slipped"]
    assert codes(validity.marks_of_schedule(kept, 1.1, samples.estimate(50.0))) == []


def test_repeated_passes_and_few_requests_are_marked() -> None:
    assert codes(validity.marks_of_requests(100, [])) == []
    damaged, few = validity.marks_of_requests(99, ["its file was empty", "it stood still for 2.5 s"])
    assert (damaged.code, few.code) == ("damaged-passes", "few-requests")
    assert damaged.text.endswith("left nothing usable: 2, the last: it stood still for 2.5 s")


def test_the_time_outside_of_the_server_is_told_as_a_share() -> None:
    outside = components(server_queue=0.1, server_compute_infer=1.0, network_server_send_recv=3.0)
    (mark,) = validity.marks_of_cpu(WELL, outside, 16)

    assert ": 73% of the time" in mark.text


def test_many_clients_at_a_server_that_is_reached_slowly_leave_it_waiting_from_two_on() -> None:
    outside: dict[str, Any] = {
        "server_queue": 0.0,
        "server_compute_infer": 1.0,
        "network_server_send_recv": 3.0,
    }

    assert of_cpu(concurrency=2, **outside) == ["client-bound"]
    assert of_cpu(concurrency=2, **outside | {"network_server_send_recv": 0.9}) == [], "half is not most"
    queue_of_a_tenth: dict[str, Any] = {
        "server_queue": 0.44,
        "server_compute_infer": 0.5,
        "network_server_send_recv": 3.5,
    }
    assert of_cpu(**queue_of_a_tenth) == [], "of what waits in the queue the client is not the cause"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"load_generator": 1.1, "server": 2.6, "others": 0.0}, ["client-bound"]),
        ({"load_generator": 0.9, "server": 2.9, "others": 0.0}, []),
        ({"load_generator": 1.1, "server": 2.0, "others": 0.3}, []),
        (
            {"load_generator": 1.1, "server": 2.0, "others": 0.0, "stolen": 0.6},
            ["client-bound", "cpu-stolen"],
        ),
        ({"load_generator": 1.1, "server": None, "others": 2.6}, ["client-bound"]),
        ({"others": 0.35}, []),
        ({"others": 0.45}, ["cpu-shared"]),
        ({"stolen": 0.15}, []),
        ({"stolen": 0.25}, ["cpu-stolen"]),
    ],
)
def test_shares_of_the_cores_are_held_to_their_limits_on_any_machine(
    changes: dict[str, Any], found: list[str]
) -> None:
    """Of 4 cores and of 8, of which each uses twice as much."""
    assert of_cpu(use(**changes)) == found
    twice: dict[str, Any] = {
        key: None if value is None else 2 * value for key, value in structs.asdict(use(**changes)).items()
    }
    assert of_cpu(CpuUse(**twice | {"cores": 8})) == found


def test_what_others_and_the_host_took_is_told_in_cores() -> None:
    shared, stolen = validity.marks_of_cpu(use(others=0.5, stolen=0.3), components(), 16)

    assert shared.text.endswith(": 0.5 of 4 cores")
    assert stolen.text.endswith(": 0.3 of 4 cores")


def test_a_server_keeps_up_that_answers_nineteen_of_twenty() -> None:
    assert validity.keeps_up([part(96, 100), part(95, 100)])
    assert not validity.keeps_up([part(94, 100), part(95, 100)])
    closed = Steady(5.0, 1.0, np.ones(5))
    assert validity.keeps_up([closed]), "without a schedule nothing is due"


def test_what_a_damaged_pass_said_is_cut() -> None:
    (mark,) = validity.marks_of_requests(1000, ["x" * 1000])

    assert 100 < len(mark.text) < 300
    assert "1 requests" not in mark.text


def test_cores_that_nothing_accounts_for_are_not_less_than_none() -> None:
    found = validity.cpu_use([CpuTime(1.0, 0.7, 1.0, 1.5, 0.0)], 2)

    assert found.others == 0.0
    one_unknown = validity.cpu_use([CpuTime(1.0, 0.2, 1.0, 1.5, 0.0), CpuTime(1.0, 0.2, None, 1.5, 0.0)], 2)
    assert one_unknown.server is None
