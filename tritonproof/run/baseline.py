"""The baseline of a case: what --against or --against-triton serves beside it, and how that is built."""

import contextlib
import dataclasses
from collections.abc import Iterator

from tritonproof.build import baseline_builds
from tritonproof.build.baseline_builds import BaselineSpec
from tritonproof.build.builds import CaseBuild, snapshot
from tritonproof.run.converted_case import ConvertedCase
from tritonproof.run.model_run import SuiteRun
from tritonproof.run.prepared_case import CaseScope, PreparedCase
from tritonproof.run.repository_case import RepositoryCase, serve_repository_case
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case
from tritonproof.user_models import model_from_config


def as_baseline(case: Case, suite_run: SuiteRun) -> tuple[Case, Settings] | None:
    """The case as it is for the baseline, and the settings that serve it there; None without --against and
    --against-triton, or if the baseline's repository has no model of the case's name."""
    settings, baseline = suite_run.settings, suite_run.settings.baseline
    if baseline is None:
        return None
    if isinstance(baseline, ServerSpec):
        return case, dataclasses.replace(settings, triton=baseline)
    if settings.repository is not None:
        if (entry := suite_run.models.baseline_entries.get(case.model.name)) is None:
            return None
        settings = dataclasses.replace(settings, repository=baseline.folder)
        model = dataclasses.replace(model_from_config.as_model(entry), tolerances=case.model.tolerances)
        case = dataclasses.replace(case, model=model)
    return case, settings


def prepare_baseline(compared: PreparedCase, scope: CaseScope) -> PreparedCase:
    """Prepare the baseline of the `compared` case, in a `scope` of its own: another build or repository, or
    the same one on another Triton. Models of repositories get the samples of the compared case."""
    against, available = scope.settings.against, scope.suite_run.models
    if isinstance(compared, RepositoryCase):
        entries = available.repository_entries if against is None else available.baseline_entries
        return scope.stack.enter_context(serve_repository_case(scope, entries, compared.samples))
    building = contextlib.nullcontext(compared.build) if against is None else _build(scope, against)
    return ConvertedCase(scope, building, keeps_config=against is not None)


@contextlib.contextmanager
def _build(scope: CaseScope, baseline: BaselineSpec) -> Iterator[CaseBuild]:
    """The case's baseline in its own model repository: an existing build, or one that its own checkout makes.
    Its config.pbtxt serves it, as in production: a change of settings is part of the comparison."""
    case = scope.requested
    with contextlib.ExitStack() as stack:
        if baseline.kind == "folder":
            folder = baseline_builds.find_build(baseline, case)
            baseline_builds.check_unchanged(baseline, folder)
        else:
            if (checkout := baseline.folder) is None:
                scope.say("get the commit's files")
                cache = scope.settings.model_repos / ".against"
                checkout = baseline_builds.export_commit(baseline, cache, on_progress=scope.say)
            options = scope.settings.command_line("checkout", case.model.name)
            built = baseline_builds.build_in_checkout(checkout, baseline, case, options, scope.say)
            scope.progress.note(f"{scope.label}: built in {built}")
            folder = stack.enter_context(snapshot(built, on_progress=scope.say))
            baseline_builds.check_unchanged(baseline, folder, built)
        yield CaseBuild(case, folder, reused=True)
