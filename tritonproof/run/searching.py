"""Searches on a real server for the fastest configuration, or highest rate, within a latency budget: of a
converted case's deployments, or of a --repository model's configurations, which must not change answers."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import structs

from tritonproof.base.errors import AccuracyError, NotAvailableError, ProofError
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.build import configuration
from tritonproof.client.requests import LoadedAs
from tritonproof.gates.same_answers import in_flight_gate, reload_gate
from tritonproof.host import machine
from tritonproof.measure.passes import LoadJob
from tritonproof.record import record_files, setup, speed
from tritonproof.run import record_updates
from tritonproof.run.case_run import CaseRun
from tritonproof.safe_io.files import MAX_SETTINGS_BYTES, read_text
from tritonproof.search import fastest
from tritonproof.search.candidates import Candidate, SearchSpace
from tritonproof.search.measurer import Measurer
from tritonproof.serve.described_model import DescribedModel
from tritonproof.serve.loading import load_folder
from tritonproof.user_models import model_from_config


@contextlib.contextmanager
def search_for_fastest(run: CaseRun) -> Iterator[speed.Search]:
    """Search, and yield the record's entry while the winner, which is not proven yet, is loaded. Write the
    winner's config.pbtxt, and its differences from a user's own, to `<case>.search` beside the record."""
    goal, plan = run.settings.goal, run.settings.plan()
    assert goal is not None
    searched: ConvertedSearch | RepositorySearch
    searched = ConvertedSearch(run) if run.described is None else RepositorySearch(run, run.described)
    space = searched.space()
    search = f"search within {goal.latency_budget_ms:g} ms"

    @functools.cache
    def request_s(_loaded: Candidate, batch: int) -> float:
        return run.loader.time_request(batch)[0]

    def prepare_job(candidate: Candidate, point: speed.LoadPoint) -> LoadJob:
        searched.load(candidate.variant)
        return run.job(point, run.expected_answers, request_s(candidate, point.batch))

    def note_left_out(candidate: Candidate, error: ProofError) -> None:
        run.note(f"{run.case}: left out: {candidate.label}: {error.what}")

    def say(activity: str, detail: str) -> None:
        run.say(f"{search}: {activity}", detail)

    hold_machine = functools.partial(run.model_run.hold_machine, exclusive=True)
    measurer = Measurer(goal, plan, prepare_job, hold_machine, say=say, on_left_out=note_left_out)
    started = time.monotonic()
    rerun, entry = fastest.find_fastest(space, measurer)
    winner = rerun.candidate.variant
    searched.load(winner)
    duration_s = round(time.monotonic() - started, 1)
    text, diff = ("", "") if entry.verdict == "failed" else searched.proposal(winner)
    path = record_files.record_path(run.case.key, run.settings.results)
    config = record_updates.write_search_config(path, text, diff)
    yield structs.replace(entry, duration_s=duration_s, config=config, diff=diff)


@dataclass(frozen=True)
class ConvertedSearch:
    """The search of a converted model, which varies its deployment."""

    run: CaseRun

    def space(self) -> SearchSpace:
        run, own, settings = self.run, self.run.deployment, self.run.settings
        if larger := [f"batch {batch}" for batch in settings.batches or () if batch > own.max_batch_size]:
            run.note(f"{run.case}: left out: {', '.join(larger)}: larger than {own.max_batch_size}")
        return SearchSpace(
            own_deployment=own,
            device=run.case.target.device,
            cores=machine.cores(),
            gpus=run.case.gpus,
            fixed=frozenset(settings.deployment),  # what options set
            batches=settings.batches,
            concurrencies=settings.concurrencies,
        )

    def load(self, variant: setup.ConfigVariant) -> None:
        self.run.loader.ensure_loaded(*variant)

    def proposal(self, winner: setup.ConfigVariant) -> tuple[str, str]:
        """The winner's config.pbtxt, and no differences, as the user has no config.pbtxt."""
        native = self.run.loader.ensure_loaded(*winner).backend != "python"
        scenario, deployment = winner
        config = configuration.model_config(self.run.case, deployment, native=native, scenario=scenario)
        return configuration.config_text(config), ""


class RepositorySearch:
    """Searches a --repository model's configurations. The expected answers are its own configuration's, given
    before another is loaded. Raises NotAvailableError for an ensemble: nothing of it varies."""

    def __init__(self, run: CaseRun, described: DescribedModel) -> None:
        self.run, self.entry = run, described.entry
        if self.entry.is_ensemble:
            what = f"the ensemble {self.entry.name} has no instances and no batcher of its own to vary"
            fix = "search the models that it calls, by their names: -k NAME"
            raise NotAvailableError(what, where=run.case, fix=fix)
        assert self.entry.folder is not None
        self.folder, self.completed = self.entry.folder, described.config
        self.own = type(self.completed)() if self.entry.config is None else self.entry.config
        self.gate_context = run.gate_context
        _ = run.expected_answers  # made now: an error in the model's own answers is no candidate's fault

    def space(self) -> SearchSpace:
        groups, largest = self.completed.instance_group, self.completed.max_batch_size
        fixed = frozenset({"instances"} if len(groups) != 1 or len(self.own.instance_group) > 1 else ())
        if fixed and largest <= 1:
            what = "has several groups of instances and takes no batches: there is nothing to vary"
            raise NotAvailableError(f"{self.entry.name} {what}")
        joins_requests = self.completed.HasField("dynamic_batching") or largest <= 1
        return SearchSpace(
            own_deployment=model_from_config.configured_deployment(self.completed),
            device=self.run.case.target.device,
            cores=machine.cores(),
            gpus=max([1, *(len(group.gpus) for group in groups)]),
            fixed=fixed,
            concurrencies=self.run.settings.concurrencies,
            own_scenario="online" if joins_requests else "offline",
        )

    def load(self, variant: setup.ConfigVariant) -> None:
        """Load a variant, unless it is loaded, and check that no answer changes. Raises ProofError if it does
        not load, AccuracyError if an answer changes."""
        loader, own = self.run.loader, self.gate_context.loaded
        # If the batcher joins requests, other kernels may compute them, whatever the model's own deployment.
        joins_requests = own.joins_requests or variant.joins_requests
        loaded = LoadedAs(variant, own.backend, joins_requests=joins_requests, by_own_config=False)
        if loader.loaded != loaded:
            with loader.changing_to(loaded):
                config = configuration.apply_variant(self.completed, self.completed, variant)
                load_folder(self.run.server, self.folder, config)
                as_own = dataclasses.replace(loaded, variant=own.variant)  # the case has its largest batch
                for check in (reload_gate, in_flight_gate):
                    if wrong := check(dataclasses.replace(self.gate_context, loaded=as_own)).result.fault:
                        raise AccuracyError(f"answers change: {wrong}", where=self.run.case)
        self.run.server.check_running()

    def proposal(self, winner: setup.ConfigVariant) -> tuple[str, str]:
        """The winner's config.pbtxt, and its differences from the model's own."""
        text = ""
        if self.entry.config is not None:
            path, fix = self.folder / CONFIG_FILE, "leave it as it is while a run goes on"
            text = read_text(path, "the configuration of a model", fix, MAX_SETTINGS_BYTES)
        varied = configuration.apply_variant(self.own, self.completed, winner)
        proposed = configuration.changed_config_text(text, self.own, varied)
        return proposed, configuration.config_diff(self.entry.name, text, proposed)
