"""Makes the run of a case, as the suite measures it or as a baseline: how each prepares its case."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator

from tritonproof.build import baseline_builds
from tritonproof.build.builds import CaseBuild, snapshot
from tritonproof.run.case_run import CaseRun
from tritonproof.run.converted_case import ConvertedCase, converted_build
from tritonproof.run.model_run import ModelRun
from tritonproof.run.prepared_case import PreparedCase
from tritonproof.run.repository_case import RepositoryCase, serve_repository_case
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Case
from tritonproof.user_models import model_from_config


def run_of_case(case: Case, model_run: ModelRun) -> CaseRun:
    """The run of a case itself, with that of its baseline."""
    return CaseRun(case, model_run, prepare_own, find_baseline=baseline_of)


def prepare_own(run: CaseRun) -> PreparedCase:
    if run.requested.model.from_repository:
        entries = run.suite_run.models.repository_entries
        return run.stack.enter_context(serve_repository_case(run, entries))
    return ConvertedCase(run, converted_build(run))


def baseline_of(run: CaseRun) -> CaseRun | None:
    """The run of the case on the baseline's server, with the settings that serve it there; None without
    --against and --against-triton, or if the baseline's repository has no model of the case's name."""
    case, settings, baseline = run.requested, run.settings, run.settings.baseline
    if baseline is None:
        return None
    if isinstance(baseline, ServerSpec):
        settings = dataclasses.replace(settings, triton=baseline)
    elif settings.repository is not None:
        if (entry := run.suite_run.models.baseline_entries.get(case.model.name)) is None:
            return None
        settings = dataclasses.replace(settings, repository=baseline.folder)
        model = dataclasses.replace(model_from_config.as_model(entry), tolerances=case.model.tolerances)
        case = dataclasses.replace(case, model=model)
    prepare = functools.partial(prepare_baseline, run.prepared)
    return CaseRun(case, run.model_run, prepare, "baseline", settings)


def prepare_baseline(compared: PreparedCase, run: CaseRun) -> PreparedCase:
    """Prepare the baseline of the `compared` case: another build or repository, or the same one on another
    Triton. Models of repositories get the samples of the compared case."""
    against, available = run.settings.against, run.suite_run.models
    if isinstance(compared, RepositoryCase):
        entries = available.repository_entries if against is None else available.baseline_entries
        return run.stack.enter_context(serve_repository_case(run, entries, compared.samples))
    building = contextlib.nullcontext(compared.build) if against is None else _build(run, against)
    return ConvertedCase(run, building, keeps_config=against is not None)


@contextlib.contextmanager
def _build(run: CaseRun, against: baseline_builds.AgainstSpec) -> Iterator[CaseBuild]:
    """The case's baseline in its own model repository: an existing build, or one that its own checkout makes.
    Its config.pbtxt serves it, as in production: a change of settings is part of the comparison."""
    case = run.requested
    with contextlib.ExitStack() as stack:
        if against.kind == "folder":
            folder = baseline_builds.find_build(against, case)
            baseline_builds.check_unchanged(against, folder)
        else:
            if (checkout := against.folder) is None:
                run.say("get the commit's files")
                cache = run.settings.model_repos / ".against"
                checkout = baseline_builds.export_commit(against, cache, on_progress=run.say)
            options = run.settings.command_line("checkout", case.model.name)
            built = baseline_builds.build_in_checkout(checkout, against, case, options, run.say)
            run.progress.note(f"{run.label}: built in {built}")
            folder = stack.enter_context(snapshot(built, on_progress=run.say))
            baseline_builds.check_unchanged(against, folder, built)
        yield CaseBuild(case, folder)
