"""Converts a case and serves it, or a model of a repository as it is, on a server of this run or somebody
else's, for the length of a block."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritonproof import baseline_build
from tritonproof.baseline_build import Baseline
from tritonproof.build.repository import BuiltModel, in_use, snapshot
from tritonproof.errors import AccuracyError, NotAvailableError
from tritonproof.host.scratch import scratch_folder
from tritonproof.host.targets import runs_here
from tritonproof.record.quantities import DURATION, SIZE
from tritonproof.run.available_models import AvailableModels, labelled_samples, samples_in_folder
from tritonproof.run.case_settings import build_case
from tritonproof.serve import as_is
from tritonproof.serve.launch import serve
from tritonproof.serve.server import Server
from tritonproof.spec import Device, Model, Samples
from tritonproof.user_models import repository_model
from tritonproof.user_models.repository import link_repository

if TYPE_CHECKING:
    from tritonproof.run.case_run import CaseRun


@dataclass(frozen=True)
class Role:
    """What sets a run that a case is measured beside apart from the case's own run: it serves a baseline, or
    the model's reference format."""

    log_name: str = ""
    """The name of its server's log; empty for the case's own server."""
    label: str = ""
    """The run's name in progress and errors; empty for the case's."""
    build_source: Callable[[], contextlib.AbstractContextManager[BuiltModel]] | None = None
    """Provides the build; None if the run converts it."""
    keeps_config: bool = False
    """Whether the build's own config.pbtxt serves it, in place of the settings."""
    samples_of: "CaseRun | None" = None
    """The run whose samples it uses; None for its own."""


@contextlib.contextmanager
def convert(run: "CaseRun") -> Iterator[BuiltModel]:
    """The converted case, in its folder of --model-repos. That of a GPU which is not here (--convert-only) is
    converted on this machine's CPU and removed after the test: a run on the GPU converts with the packages
    for GPUs, and would not reuse it."""
    case, settings, is_here = run.case, run.settings, runs_here(run.case.target)
    with contextlib.ExitStack() as stack:
        if not is_here:
            folder = stack.enter_context(scratch_folder("conversion"))
            settings = dataclasses.replace(settings, model_repos=folder)
        with run.hold_machine(exclusive=False):
            run.say("convert")
            device: Device | None = None if is_here else "cpu"
            build = build_case(case, run.model_run.weights, settings, run.say, device=device)
        size, took = SIZE.text(build.size_mib), DURATION.text(build.build_time_s)
        if is_here:
            run.narrator.note(f"{case}: built in {took}{', reused' if build.reused else ''} ({size})")
            build = stack.enter_context(in_use(build, report=run.say))
        else:
            run.narrator.note(f"{case}: can be converted ({size}); {case.target.label} converts its own")
        yield build


@contextlib.contextmanager
def build_baseline(run: "CaseRun", baseline: Baseline) -> Iterator[BuiltModel]:
    """The case's baseline in its own model repository: one that exists, or one built in its own checkout. Its
    own config.pbtxt serves it, as in production: a change of settings is part of the comparison."""

    def say(step: str) -> None:
        run.narrator.say(f"{run.case} against {baseline.name}: {step}")

    with contextlib.ExitStack() as stack:
        if baseline.kind == "builds":
            folder = baseline_build.find_build(baseline, run.case)
            baseline_build.check_unchanged(baseline, folder)
        else:
            if (checkout := baseline.folder) is None:
                say("get its files")
                place = run.settings.model_repos / ".against"
                checkout = baseline_build.export_commit(baseline, place, report=say)
            options = run.settings.command_line("builds", run.case.model.name)
            built = baseline_build.build_in_checkout(checkout, baseline, run.case, options, say)
            run.narrator.note(f"{run.case} against {baseline.name}: built in {built}")
            folder = stack.enter_context(snapshot(built, report=say))
            baseline_build.check_unchanged(baseline, folder, built)
        yield BuiltModel(run.case, folder, "", "", 0.0, 0.0, reused=True)


@contextlib.contextmanager
def start_server(run: "CaseRun", repository: Path, **more: Any) -> Iterator[Server]:
    """The Triton of a run's case with the models below `repository`; `more` goes to `serve`."""
    case, settings, role = run.requested, run.settings, run.role
    log = f"{case}.{role.log_name}.server.log" if role.log_name else f"{case}.server.log"
    with serve(
        settings.triton,
        repository,
        settings.results / case.target.name / log,
        device=case.target.device,
        shared_memory=settings.shared_memory,
        report=run.say,
        **more,
    ) as server:
        yield dataclasses.replace(server, label=f"the Triton of {role.label}") if role.label else server


@contextlib.contextmanager
def serve_as_is(run: "CaseRun") -> Iterator[as_is.ServedAsIs]:
    """The case of --repository with its model loaded and its first request answered."""
    case, settings, available = run.requested, run.settings, run.model_run.models
    name, models = case.model.name, available.repository_models
    if name not in models:
        what = f"{name} is not in this repository, so that its clients would get no answers"
        fix = f"add the model, or leave it out of the comparison: -k 'not {name}'"
        raise AccuracyError(what, where=f"--repository {settings.repository}", fix=fix)
    if (reason := repository_model.why_not_here(models[name], case.answers_on)) is not None:
        raise NotAvailableError(reason)  # before a server is started
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder("found"))
        if settings.triton.kind == "docker" and isinstance(settings.repository, Path):
            repository = settings.repository  # a container gets the user's own, read-only
        else:
            repository = scratch / "models"
            repository.mkdir()
            link_repository(models.values(), repository)
        server = stack.enter_context(start_server(run, repository, auto_complete=True))
        run.say("load into Triton as it is")
        with run.hold_machine(exclusive=False):
            model, loaded, first_request = _load_and_ask(run, server, available)
        run.narrator.note(f"{run.role.label or case}: {loaded}; requests: {first_request.note}")
        case = dataclasses.replace(
            case,
            model=dataclasses.replace(model, samples=lambda *_split: first_request.samples),
            format=dataclasses.replace(case.format, engine=loaded.backend),
        )
        (as_served := scratch / "as-served").mkdir()
        labelled = None
        if name in available.labels and name in available.samples:
            labelled = labelled_samples(model, available.samples[name], available.labels[name])
        build = as_is.as_build(case, loaded, as_served)
        yield as_is.ServedAsIs(case, server, loaded, build, first_request, labelled)


def _load_and_ask(
    run: "CaseRun", server: Server, available: AvailableModels
) -> tuple[Model, as_is.LoadedModel, as_is.FirstRequest]:
    """Load a model of --repository and send its first request; returns the model as its server completes it,
    too. A baseline gets the samples of the case that is compared with it."""
    requested, name = run.requested.model, run.requested.model.name
    labels, models = available.labels.get(name), available.repository_models
    shared_samples = None if run.role.samples_of is None else run.role.samples_of.samples

    def user_samples(model: Model) -> Samples | None:
        several = labels is None and model.exchange == "single"
        return samples_in_folder(model, available.samples.get(name), several=several)

    samples = shared_samples or user_samples(requested)
    loaded = as_is.load_model(server, models[name], models)
    model = repository_model.with_config(requested, loaded.config)
    if labels is not None:
        model = repository_model.with_labels(model, labels)
    required = {tensor.name for tensor in model.inputs if not tensor.optional}
    if shared_samples is not None and (lacking := required - shared_samples.load([0]).keys()):
        inputs = ", ".join(sorted(lacking))
        raise AccuracyError(f"{run.role.label} takes other inputs: {inputs} too", where=run.requested)
    first_request = as_is.send_first_request(server, model, samples or user_samples(model))
    if loaded.unreported:
        remark = f"the server does not give {' and '.join(loaded.unreported)}"
        first_request = dataclasses.replace(first_request, note=f"{first_request.note}; {remark}")
    return model, loaded, first_request
