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
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.run.repository_case import serve_repository_case
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Case
from tritonproof.user_models import model_from_config


def run_of_case(case: Case, model_run: ModelRun) -> CaseRun:
    """The run of a case, which can also make the run of its baseline."""
    return CaseRun(case, model_run, model_run.suite_run.settings, prepare, baseline_of)


def baseline_of(run: CaseRun) -> CaseRun | None:
    """The run of the case on the baseline's server, with the settings that serve it there; None without
    --against and --against-triton, or if the baseline's repository has no model of the case's name."""
    case, settings, baseline = run.requested, run.settings, run.settings.baseline
    if baseline is None:
        return None
    if isinstance(baseline, ServerSpec):
        settings = dataclasses.replace(settings, triton=baseline)
    elif settings.repository is not None:
        if (entry := run.model_run.suite_run.models.baseline_entries.get(case.model.name)) is None:
            return None
        settings = dataclasses.replace(settings, repository=baseline.folder)
        model = dataclasses.replace(model_from_config.as_model(entry), tolerances=case.model.tolerances)
        case = dataclasses.replace(case, model=model)
    prepare_baseline = functools.partial(prepare, compared=run.prepared)
    return CaseRun(case, run.model_run, settings, prepare_baseline, role="baseline")


def prepare(scope: CaseScope, compared: PreparedCase | None = None) -> PreparedCase:
    """Prepare a case itself, or as the baseline of the `compared` one: another build or repository, or the
    same one on another Triton. Models of repositories get the samples of the compared case."""
    against = None if compared is None else scope.settings.against
    if scope.requested.model.from_repository:
        available, samples = scope.model_run.suite_run.models, None if compared is None else compared.samples
        entries = available.repository_entries if against is None else available.baseline_entries
        return scope.stack.enter_context(serve_repository_case(scope, entries, samples))
    building: contextlib.AbstractContextManager[CaseBuild]
    if compared is None:
        building = converted_build(scope)
    else:
        building = contextlib.nullcontext(compared.build) if against is None else _build(scope, against)
    return ConvertedCase(scope, building, keeps_config=against is not None)


@contextlib.contextmanager
def _build(scope: CaseScope, against: baseline_builds.AgainstSpec) -> Iterator[CaseBuild]:
    """The case's baseline in its own model repository: an existing build, or one that its own checkout makes.
    Its config.pbtxt serves it, as in production: a change of settings is part of the comparison."""
    case = scope.requested
    with contextlib.ExitStack() as stack:
        if against.kind == "folder":
            folder = baseline_builds.find_build(against, case)
            baseline_builds.check_unchanged(against, folder)
        else:
            if (checkout := against.folder) is None:
                scope.say("get the commit's files")
                cache = scope.settings.model_repos / ".against"
                checkout = baseline_builds.export_commit(against, cache, on_progress=scope.say)
            options = scope.settings.command_line("checkout", case.model.name)
            built = baseline_builds.build_in_checkout(checkout, against, case, options, scope.say)
            scope.note(f"{scope.label}: built in {built}")
            folder = stack.enter_context(snapshot(built, on_progress=scope.say))
            baseline_builds.check_unchanged(against, folder, built)
        yield CaseBuild(case, folder)
