"""The baseline of a case: what --against or --against-triton serves beside it, and how that is built."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tritonproof.build import baseline_builds
from tritonproof.build.baseline_builds import BaselineSpec
from tritonproof.build.builds import BuiltModel, snapshot
from tritonproof.run.converted_case import ConvertedCase
from tritonproof.run.model_run import ModelRun
from tritonproof.run.prepared_case import PreparedCase
from tritonproof.run.repository_case import RepositoryCase, serve_repository_case
from tritonproof.spec import Case
from tritonproof.user_models import model_from_config

if TYPE_CHECKING:
    from tritonproof.run.case_run import CaseRun


def as_baseline(case: Case, model_run: ModelRun) -> tuple[Case, ModelRun] | None:
    """The case and the run of its model as they are for the baseline; None without --against and
    --against-triton, or if the baseline's repository has no model of the case's name."""
    settings, models, against = model_run.settings, model_run.models, model_run.settings.against
    if settings.against_triton is not None:
        settings = dataclasses.replace(settings, triton=settings.against_triton)
    elif against is None:
        return None
    if settings.compares_repositories:
        models = dataclasses.replace(models, samples={}, labels={})  # the baseline gets the case's samples
        if against is not None:
            if case.model.name not in models.baseline_models:
                return None
            settings = dataclasses.replace(settings, repository=against.folder)
            models = dataclasses.replace(models, repository_models=models.baseline_models)
            model = model_from_config.as_model(models.repository_models[case.model.name])
            model = dataclasses.replace(model, tolerances=case.model.tolerances)
            case = dataclasses.replace(case, model=model)
    return case, ModelRun(case.model, case.target, settings, models, model_run.progress)


def prepare_baseline(compared: PreparedCase, run: "CaseRun") -> PreparedCase:
    """Prepare the baseline of the `compared` case, in a `run` of its own: another build or repository, or the
    same one on another Triton. Models of repositories get the samples of the compared case."""
    if isinstance(compared, RepositoryCase):
        return run.stack.enter_context(serve_repository_case(run, compared.samples))
    against = run.settings.against
    building = contextlib.nullcontext(compared.build) if against is None else _build(run, against)
    return ConvertedCase(run, building, keeps_config=against is not None)


@contextlib.contextmanager
def _build(run: "CaseRun", baseline: BaselineSpec) -> Iterator[BuiltModel]:
    """The case's baseline in its own model repository: an existing build, or one that its own checkout makes.
    Its config.pbtxt serves it, as in production: a change of settings is part of the comparison."""
    case = run.requested
    with contextlib.ExitStack() as stack:
        if baseline.kind == "builds":
            folder = baseline_builds.find_build(baseline, case)
            baseline_builds.check_unchanged(baseline, folder)
        else:
            if (checkout := baseline.folder) is None:
                run.say("get the commit's files")
                cache = run.settings.model_repos / ".against"
                checkout = baseline_builds.export_commit(baseline, cache, on_progress=run.say)
            options = run.settings.command_line("builds", case.model.name)
            built = baseline_builds.build_in_checkout(checkout, baseline, case, options, run.say)
            run.progress.note(f"{run.label}: built in {built}")
            folder = stack.enter_context(snapshot(built, on_progress=run.say))
            baseline_builds.check_unchanged(baseline, folder, built)
        yield BuiltModel(case, folder, reused=True)
