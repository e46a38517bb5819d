"""The search: what it plans, on simulated servers whose optimum is known."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.measure import estimates
from fixtures.measure.job import Job
from fixtures.measure.measured import Measured, PointState
from fixtures.measure.stopping import MeasuringPlan
from fixtures.measure.timeline import Steady
from fixtures.search import candidates, fastest, ladder, on_server, proof, trials
from fixtures.search.candidates import Candidate, Goal, Space
from fixtures.search.fastest import Found
from fixtures.search.ladder import Reading
from fixtures.search.on_server import Bench as RealBench
from fixtures.search.proof import Proof
from fixtures.search.trials import Entry, Trial
from fixtures.spec import Deployment, LoadPoint
from reports import tables
from reports.record import files
from reports.record.schema import Accuracy, Estimate, Record, Search, Verdict
from reports.words.latency_budget import found_text, lead_text, search_paragraph
from reports.words.shown import shown
from tests import samples, simulated

OWN = Deployment(32, 1, (16, 32), 1_000, cuda_graphs=False, warmup=True)
SPACE = Space(OWN, "cpu", 2)
PASS_S, FRESH = 0.3, 10
SPREAD = 0.12
"""Of the logarithm of a request's latency."""

Latency = Callable[[Candidate, int], float]
"""Mean in milliseconds with so many samples in flight."""


def usual(candidate: Candidate, size: int) -> float:
    """A floor, and a server that works off what is in flight; two instances and some delay help a little."""
    deployment = candidate.deployment
    point = candidate.ladder[0]
    per_s = 3000.0 if candidate.scenario == "offline" else 2000.0
    per_s *= 1 + 0.15 * (deployment.instances == 2)
    if candidate.scenario == "online" and deployment.max_queue_delay_us:
        per_s *= 1.1 if deployment.max_queue_delay_us < 500 else 0.9
    return 0.8 * point.concurrency**0.2 + 1e3 * size / per_s


@dataclass
class Bench:
    """A simulated server: what was asked of it, and noise between requests and between passes."""

    seed: int = 0
    latency: Latency = usual
    luck: float = 0.03
    """Spread between passes of the logarithm of the speed."""
    looks: list[tuple[Candidate, LoadPoint]] = field(default_factory=list)
    rates_per_s: list[float] = field(default_factory=list)
    """Of each look."""
    proofs: list[Sequence[Entry]] = field(default_factory=list)
    """What each attempt at a proof was of."""
    fresh: list[list[PointState]] = field(default_factory=list)
    """What each of them measured."""

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.seed)

    def look(self, candidate: Candidate, point: LoadPoint) -> Steady:
        self.looks.append((candidate, point))
        mean_ms = self.latency(candidate, point.batch * point.concurrency)
        mean_ms *= math.exp(self.generator.normal(0, self.luck))
        self.rates_per_s.append(1e3 * point.batch * point.concurrency / mean_ms)
        count = max(3, round(point.concurrency * PASS_S * 1e3 / mean_ms))
        latencies = mean_ms * np.exp(self.generator.normal(-(SPREAD**2) / 2, SPREAD, count))
        return Steady(point.concurrency * PASS_S * 1e3 / mean_ms, PASS_S, latencies)

    def prove(self, entries: Sequence[Entry]) -> list[PointState]:
        self.proofs.append(tuple(entries))
        found = [PointState(self.fresh_passes(entry)) for entry in entries]
        self.fresh.append(found)
        return found

    def fresh_passes(self, entry: Entry) -> Measured:
        point = entry.point
        mean_ms = self.latency(entry.candidate, point.batch * point.concurrency)
        size = (FRESH, point.concurrency, max(3, round(1.5 * PASS_S * 1e3 / mean_ms)))
        noise = self.generator.normal(-(SPREAD**2) / 2, SPREAD, size)
        luck = self.generator.normal(0, self.luck, (FRESH, 1, 1))
        passes = mean_ms / 1e3 * np.exp(noise + luck)
        runs = tuple(simulated.run_of(simulated.closed_loop(one, PASS_S)) for one in passes)
        return Measured(simulated.job(point), passes=runs)

    def search(self, goal: Goal, space: Space = SPACE) -> Found:
        return fastest.search(space, goal, self.look, self.prove)

    def throughput_per_s(self, candidate: Candidate, level: int) -> float:
        size = candidate.sizes[level]
        return 1e3 * size / self.latency(candidate, size)

    def keeps(self, entry: Entry, goal: Goal) -> bool:
        """Whether the true percentile keeps the budget."""
        size = entry.candidate.sizes[entry.level]
        return self.latency(entry.candidate, size) * self.tail(goal) <= goal.budget_ms

    def tail(self, goal: Goal) -> float:
        """The percentile over the mean."""
        z = {90: 1.2816, 95: 1.6449, 99: 2.3263}[goal.percent]
        return math.exp(z * math.hypot(SPREAD, self.luck) - SPREAD**2 / 2)

    def optimum_per_s(self, goal: Goal) -> float:
        """The true highest throughput of all loads whose true percentile keeps the budget."""
        every = candidates.basic_candidates(SPACE) + [
            one for count in (1, 2) for one in candidates.variations(SPACE, goal, count)
        ]
        return max(
            self.throughput_per_s(one, level)
            for one in every
            for level in range(len(one.ladder))
            if self.keeps(Entry(one, level), goal)
        )


# --- simulated servers -------------------------------------------------------------------------------------

TRIALS = 20


@pytest.mark.parametrize(
    "goal", [Goal(3, 99), Goal(7, 99), Goal(7, 90), Goal(20, 95), Goal(1000, 99)], ids=str
)
def test_the_optimum_is_found_within_5_percent_and_the_budget_is_kept(goal: Goal) -> None:
    benches = [Bench(seed) for seed in range(TRIALS)]
    found = [bench.search(goal).winner for bench in benches]

    near = [
        bench.throughput_per_s(one.entry.candidate, one.entry.level) >= 0.95 * bench.optimum_per_s(goal)
        for bench, one in zip(benches, found, strict=True)
    ]
    assert sum(near) >= 0.9 * TRIALS
    kept = [bench.keeps(one.entry, goal) for bench, one in zip(benches, found, strict=True)]
    assert all(one.verdict == "passed" for one in found)
    assert sum(kept) >= 0.9 * TRIALS


def test_few_measurements_are_made_and_fewer_models_loaded() -> None:
    for seed in range(TRIALS):
        bench = Bench(seed)
        found = bench.search(Goal(7, 99))

        configurations = [candidate.configuration for candidate, _ in bench.looks]
        changes = sum(one != other for one, other in itertools.pairwise(configurations))
        assert found.configurations == 9
        assert len(bench.looks) <= 90
        assert changes <= 9 + 4 + 2
        assert len(bench.proofs) <= 4


def test_a_budget_that_nothing_keeps_is_beyond_and_names_the_nearest() -> None:
    bench = Bench()
    found = bench.search(Goal(0.5, 99))

    assert found.winner.verdict == "failed"
    assert found.lead is None
    assert found.winner.entry.level == 0
    assert found.winner.latency_ms.value > 0.5
    assert len(bench.looks) < 70


def test_a_budget_that_everything_keeps_is_won_by_the_fastest() -> None:
    bench = Bench()
    found = bench.search(Goal(100_000, 99))

    assert found.winner.verdict == "passed"
    winner = found.winner.entry
    assert bench.throughput_per_s(winner.candidate, winner.level) >= 0.95 * bench.optimum_per_s(
        Goal(100_000, 99)
    )


def test_a_peak_in_the_middle_of_the_loads_is_found_where_the_budget_is_no_limit() -> None:
    def thrashing(candidate: Candidate, size: int) -> float:
        return 1 + size / 3 * (1 + (size / 24) ** 2)

    found = Bench(latency=thrashing).search(Goal(10_000, 99))

    winner = found.winner.entry
    assert 8 <= winner.candidate.sizes[winner.level] <= 32


@pytest.mark.parametrize("seed", range(5))
def test_latencies_that_jump_up_and_down_with_the_load_break_nothing(seed: int) -> None:
    def jumping(candidate: Candidate, size: int) -> float:
        return usual(candidate, size) * (3 if size % 3 == 0 else 1) / (2 if size > 40 else 1)

    bench = Bench(seed, jumping)
    found = bench.search(Goal(7, 99))

    assert found.winner.verdict == "passed"
    assert bench.keeps(found.winner.entry, Goal(7, 99))
    assert len(bench.looks) <= 90


def test_the_figures_are_of_fresh_passes_and_not_of_those_that_selected() -> None:
    # All configurations are alike, so the one that seems best is lucky: its figures of before are too good.
    def alike(_candidate: Candidate, size: int) -> float:
        return 1 + size / 2

    goal, errors, selected = Goal(1000, 99), [], []
    for seed in range(TRIALS):
        bench = Bench(seed, alike, luck=0.2)
        winner = bench.search(goal).winner
        true_per_s = bench.throughput_per_s(winner.entry.candidate, winner.entry.level)
        assert any(winner.state is one for fresh in bench.fresh for one in fresh)
        assert winner.throughput_per_s.value == pytest.approx(
            estimates.throughput(winner.state.mine.steady) * winner.entry.point.batch
        )
        errors.append(math.log(winner.throughput_per_s.value / true_per_s))
        selected.append(max(bench.rates_per_s) / true_per_s)
    assert abs(np.mean(errors)) < 3 * 0.2 / math.sqrt(TRIALS * FRESH)
    assert np.mean(selected) > 1.2, "the passes that selected are lucky ones"


def test_a_load_that_is_not_shown_to_keep_the_budget_is_lowered_and_measured_anew() -> None:
    found = [(bench := Bench(seed), bench.search(Goal(7, 99))) for seed in range(TRIALS)]

    again = [(bench, one) for bench, one in found if len(bench.proofs) > 1]
    assert again
    for bench, one in again:
        first, last = bench.proofs[0][0], bench.proofs[-1][0]
        assert last == one.winner.entry
        assert first != last
        assert any(one.winner.state is state for state in bench.fresh[-1])


def proven(verdict: Verdict, per_s: float) -> Proof:
    """Ten passes of one throughput, more or less."""
    candidate = candidates.basic_candidates(SPACE)[0]
    latencies_s = [1 / per_s / (1 + n % 3 / 1e3) for n in range(FRESH)]
    timelines = [simulated.closed_loop(np.full((1, 60), one), 50 / per_s) for one in latencies_s]
    passes = tuple(simulated.run_of(timeline) for timeline in timelines)
    state = PointState(Measured(simulated.job(candidate.ladder[0]), passes=passes))
    value = Estimate(per_s, per_s, per_s)
    return Proof(Entry(candidate, 0), state, Estimate(1, 1, 1), value, verdict)


@pytest.mark.parametrize(
    ("first", "second", "is_second"),
    [
        (("passed", 100), ("passed", 90), False),
        (("passed", 90), ("not shown", 100), False),
        (("not shown", 100), ("passed", 90), True),
        (("not shown", 90), ("not shown", 100), True),
        (("not shown", 100), ("not shown", 100), False),
        (("not shown", 90), ("failed", 100), False),
    ],
)
def test_where_attempts_are_spent_the_better_of_the_last_two_wins(
    first: Any, second: Any, is_second: bool
) -> None:
    proofs = [proven(*first), proven(*second)]

    assert proof.chosen([proofs])[0] is proofs[is_second]


def test_the_model_s_own_settings_are_always_tried() -> None:
    odd = dataclasses.replace(OWN, instances=3, preferred_batch_sizes=(5,), max_queue_delay_us=77)
    bench = Bench()
    bench.search(Goal(7, 99), dataclasses.replace(SPACE, own=odd))

    assert ("online", odd) in {candidate.configuration for candidate, _ in bench.looks}


def test_a_configuration_that_does_not_load_is_left_out() -> None:
    class Refusing(Bench):
        def look(self, candidate: Candidate, point: LoadPoint) -> Steady:
            if candidate.deployment.instances == 2:
                raise ProofError("out of memory")
            return super().look(candidate, point)

    found = Refusing().search(Goal(7, 99))

    assert found.winner.entry.candidate.deployment.instances == 1
    assert found.winner.verdict == "passed"


def test_where_none_loads_the_first_error_is_raised() -> None:
    class Broken(Bench):
        def look(self, candidate: Candidate, point: LoadPoint) -> Steady:
            raise ProofError(f"{point} does not load with {candidate.deployment.instances}")

    with pytest.raises(ProofError, match="does not load with 1"):
        Broken().search(Goal(7, 99))


# --- on a server, by the seam of all measuring -------------------------------------------------------------


def bench_of(generator: simulated.LoadGenerator, loaded: list[Candidate]) -> RealBench:
    """A bench whose server is invented; `loaded` gets each candidate that was asked for."""

    def job_of(candidate: Candidate, point: LoadPoint) -> Job:
        loaded.append(candidate)
        return simulated.job(point, request_s=0.002)

    return RealBench(job_of, contextlib.nullcontext, MeasuringPlan(budget_s=2.0), take=generator.take)


def test_a_look_is_one_short_run() -> None:
    generator, loaded = simulated.LoadGenerator(), list[Candidate]()
    candidate = candidates.basic_candidates(SPACE)[0]

    part = on_server.look(bench_of(generator, loaded), Goal(7, 99), candidate, candidate.ladder[3])

    assert [point for _, point, _ in generator.calls] == [candidate.ladder[3]]
    assert set(part.latencies_ms) == {simulated.LATENCY_MS}
    assert loaded == [candidate]


def test_a_proof_takes_each_entry_twice_in_opposite_order_and_spends_its_budget() -> None:
    generator, loaded = simulated.LoadGenerator(), list[Candidate]()
    first, second, *_ = candidates.basic_candidates(SPACE)
    entries = [Entry(first, 3), Entry(second, 1)]

    states = on_server.prove(bench_of(generator, loaded), entries)

    assert loaded == [first, second, second, first], "a steady drift falls on both alike"
    assert [state.point for state in states] == [entry.point for entry in entries]
    assert all(4.0 - 0.5 < state.spent_s < 4.0 + 0.5 for state in states), "two budgets of a point each"
    assert all(run.steady.latencies_ms[0] == simulated.LATENCY_MS for run in states[0].mine.passes)


def test_a_proof_that_cannot_be_measured_is_an_error() -> None:
    def refuse(_job: Job, number: int) -> float:
        if number == 4:
            raise ProofError("Triton does not answer any more")
        return simulated.LATENCY_MS

    candidate = candidates.basic_candidates(SPACE)[0]
    with pytest.raises(ProofError, match="does not answer any more"):
        on_server.prove(bench_of(simulated.LoadGenerator(refuse), []), [Entry(candidate, 0)])


def test_what_is_found_is_recorded_in_the_record_s_own_words() -> None:
    goal, plan = Goal(7, 99), MeasuringPlan()
    for verdict, said in (("passed", "within"), ("not shown", "not shown"), ("failed", "beyond")):
        one = proven(cast(Verdict, verdict), 100.0)
        warm = dataclasses.replace(one.state.mine, warm_up=one.state.mine.passes[:2])
        one = dataclasses.replace(one, state=PointState(warm))
        found = on_server.summarise(Found(one, None, 9, 95), goal, plan, 71.64, "config.pbtxt")
        assert (found.verdict, found.passes, found.duration_s) == (said, 95, 71.6)
        assert found.load.throughput_per_s.value == pytest.approx(100, rel=0.01)


# --- what there is to try ----------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 4, 8, 32, 128, 256])
def test_ladders_rise_to_the_largest_in_steps_of_an_eighth_at_most(most: int) -> None:
    sizes = candidates.ladder_sizes(most)

    assert sizes[0] == 1
    assert sizes[-1] == most
    assert all(one < other for one, other in itertools.pairwise(sizes))
    assert all(other <= 1.125 * one for one, other in itertools.pairwise(sizes[8:]))
    assert {2**n for n in range(9) if 2**n <= most} <= set(sizes)


def test_instances_are_bounded_by_cores_and_device() -> None:
    counts = {
        cores: candidates.instance_counts(dataclasses.replace(SPACE, cores=cores)) for cores in (1, 2, 64)
    }
    assert counts == {1: [1], 2: [1, 2], 64: [1, 2, 4]}
    assert candidates.instance_counts(Space(OWN, "cuda", 1)) == [1, 2, 4]


@pytest.mark.parametrize(
    ("budget_ms", "delays_us"),
    [(0.05, [12]), (0.5, [100]), (2, [100, 500, 1000]), (7, [100, 1000]), (40, [100, 1000, 10_000])],
)
def test_queue_delays_are_below_the_budget(budget_ms: float, delays_us: list[int]) -> None:
    assert candidates.queue_delays(Goal(budget_ms, 99)) == delays_us


def test_what_the_user_gives_is_held() -> None:
    held = Space(
        OWN, "cpu", 2, frozenset({"instances", "max_queue_delay_us"}), batches=(1,), concurrencies=(4, 8)
    )
    every = [*candidates.basic_candidates(held), *candidates.variations(held, Goal(7, 99), 1)]

    assert {one.deployment.instances for one in every} == {1}
    assert {one.deployment.max_queue_delay_us for one in every} == {1_000}
    assert {point.batch for one in every for point in one.ladder} == {1}
    assert {p.concurrency for one in every if one.scenario == "online" for p in one.ladder} == {4, 8}


# --- one step ----------------------------------------------------------------------------------------------

SIZES = candidates.ladder_sizes(128)


def reading(size: int, throughput_per_s: float, latency_ms: float) -> Reading:
    return Reading(SIZES.index(size), throughput_per_s, latency_ms)


@pytest.mark.parametrize(
    ("seen", "size"),
    [
        ([], 11),
        ([(8, 4.0)], 14),
        ([(8, 6.99)], 9),
        ([(8, 14.0)], 4),
        ([(8, 7.01)], 7),
        ([(8, 3.5), (32, 14.0)], 16),
        ([(8, 6.9), (10, 7.1)], 9),
        ([(8, 6.9), (9, 7.1)], None),
        ([(1, 8.0)], None),
        ([(128, 6.0)], None),
        ([(8, 3.0), (9, 8.0), (10, 3.0), (12, 9.0)], 11),
    ],
)
def test_the_next_load_is_where_the_latency_should_just_keep_the_budget(
    seen: list[tuple[int, float]], size: int | None
) -> None:
    readings = [reading(one, 1000.0, latency_ms) for one, latency_ms in seen]
    level = ladder.next_level(readings, SIZES, 7.0)
    assert (None if level is None else SIZES[level]) == size


def test_what_a_configuration_promises_lies_between_the_loads_that_were_seen() -> None:
    low, high = reading(8, 1000.0, 4.0), reading(16, 1500.0, 10.0)
    assert 1000 < ladder.promise([low, high], 7.0) < 1500
    assert ladder.promise([low], 7.0) == 1000
    assert ladder.promise([high], 7.0) == -10
    assert ladder.promise([low, reading(16, 900.0, 10.0)], 7.0) == 1000, "more load that only slows it"


def test_the_proof_begins_a_little_within_the_budget_where_there_is_such_a_load() -> None:
    candidate = candidates.basic_candidates(SPACE)[0]

    def seen(*latencies_ms: float) -> Trial:
        looks = [(level, Steady(100.0, 1.0, np.full(50, ms))) for level, ms in enumerate(latencies_ms)]
        return Trial(candidate, tuple(looks))

    levels = [
        trials.entry_of(seen(*one), Goal(7, 99)).level for one in [(3, 6, 6.9, 9), (6.9, 9), (9, 8, 10)]
    ]
    assert levels == [1, 0, 1], "a batch of two is faster than one at the same rate of requests"


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [(5, 6, 7, "passed"), (5, 6, 7.1, "not shown"), (6, 7.1, 8, "failed"), (7, 7, 7, "passed")],
)
def test_the_verdict_is_that_of_the_interval(low: float, value: float, high: float, verdict: str) -> None:
    assert proof.verdict_of(Estimate(value, low, high), 7.0) == verdict


# --- in words ----------------------------------------------------------------------------------------------


def found_record(**changes: Any) -> Record:
    """A record with a search whose winner is proven."""
    fields: dict[str, Any] = {
        "budget_ms": 7.0,
        "percentile": "p99",
        "deployment": Deployment(32, 1, (16, 32), 100, cuda_graphs=False, warmup=True),
        "load": samples.load("online", 12, 1940.4, latency_ms={"p99": Estimate(6.8, 6.5, 6.95)}),
        "verdict": "within",
        "lead": Estimate(1.03, 1.01, 1.05),
        "configurations": 9,
        "passes": 95,
        "duration_s": 71.6,
        "config": "case.search/config.pbtxt",
        "accuracy": samples.accuracy(),
    }
    return samples.record(search=Search(**(fields | changes)))


def words(one: Record) -> str:
    assert one.search is not None
    return found_text(one.search)


def test_the_figure_says_how_fast_where_and_how_sure() -> None:
    assert words(found_record()) == (
        "1,940.4 infer/s with p99 6.800 ms (6.500 to 6.950) within 7 ms: online, concurrency 12, 1 instance, "
        "preferred 16 32, delay 100 µs; 3 % faster than the runner-up (1 to 5 %)"
    )
    offline = samples.load("offline", 8, 1940.4, latency_ms={"p99": Estimate(6.8, 6.5, 7.1)})
    assert words(found_record(load=offline, verdict="not shown", lead=None)) == (
        "1,940.4 infer/s with p99 6.800 ms (6.500 to 7.100) not shown to be within 7 ms: offline, batch 8, concurrency 1, "
        "1 instance; no other configuration kept the budget"
    )


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        (Estimate(1.03, 0.98, 1.08), "no different from the runner-up (-2 to 8 %)"),
        (Estimate(0.8, 0.76, 0.84), "one that is 25 % faster (19 to 32 %) is not shown to keep the budget"),
    ],
)
def test_a_lead_that_is_not_shown_is_none(lead: Estimate, said: str) -> None:
    assert lead_text(lead) == said


def test_the_winner_stands_in_the_summary_and_in_the_section_of_its_case() -> None:
    for text in (tables.summary_table([shown(found_record())]), tables.case_section(shown(found_record()))):
        assert "1,940.4 infer/s with p99 6.800 ms" in text
        assert "`case.search/config.pbtxt`" in text
    assert "latency budget" not in tables.case_section(shown(samples.record()))
    alone = dataclasses.replace(found_record(), accuracy=None, loads=())
    assert "No throughput is shown" not in tables.summary_table([shown(alone)])


@pytest.mark.parametrize("ledger", [None, samples.failed_accuracy()])
def test_a_winner_that_is_not_proven_shows_no_speed(ledger: Accuracy | None) -> None:
    text = search_paragraph(shown(found_record(accuracy=ledger)))
    assert text.startswith("The winner within 7 ms is not proven. No throughput is shown: ")
    assert "1,940" not in text


def test_random_weights_leave_the_proof_to_the_conversion() -> None:
    def of(**changes: Any) -> Record:
        return samples.random_weights(search=found_record(accuracy=None).search, **changes)

    assert "1,940.4 infer/s" in search_paragraph(shown(of()))
    assert "not proven" in search_paragraph(shown(of(conversion=samples.failed_conversion())))


def test_a_budget_that_nothing_kept_is_said_with_the_lowest_latency() -> None:
    load = samples.load("online", 1, 100.0, latency_ms={"p99": Estimate(9.5, 9.1, 10.2)})
    assert search_paragraph(shown(found_record(verdict="beyond", load=load, accuracy=None))) == (
        "None of 9 configurations keeps p99 within 7 ms; the lowest reached is 9.500 ms (9.100 to 10.200): online, "
        "concurrency 1, 1 instance, preferred 16 32, delay 100 µs."
    )


def test_a_record_with_a_search_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    files.write(found_record(), path)
    assert files.read(path) == found_record()
