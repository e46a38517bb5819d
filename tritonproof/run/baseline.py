"""The baseline of a case: what is served beside it with --against and --against-triton, and its build."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from tritonproof.build import baselines
from tritonproof.build.baselines import BaselineSpec
from tritonproof.build.builds import BuiltModel, snapshot
from tritonproof.run.context import CaseContext
from tritonproof.run.converted_case import ConvertedCase
from tritonproof.settings.available_models import AvailableModels
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case
from tritonproof.user_models import model_from_config


def as_baseline(
    case: Case, settings: Settings, models: AvailableModels
) -> tuple[Case, Settings, AvailableModels] | None:
    """A case, the settings and the models as the run of its baseline has them; None without --against and
    --against-triton, and if the baseline's repository has no model of that name."""
    against = settings.against
    if settings.against_triton is not None:
        settings = dataclasses.replace(settings, triton=settings.against_triton)
    elif against is None:
        return None
    if settings.compares_repositories:
        models = dataclasses.replace(models, samples={}, labels={})  # both get the case's samples
        if against is not None:
            if case.model.name not in models.baseline_models:
                return None
            settings = dataclasses.replace(settings, repository=against.folder)
            models = dataclasses.replace(models, repository_models=models.baseline_models)
            model = model_from_config.as_model(models.repository_models[case.model.name])
            model = dataclasses.replace(model, tolerances=case.model.tolerances)
            case = dataclasses.replace(case, model=model)
    return case, settings, models


def prepare_baseline(build_here: Callable[[], BuiltModel], context: CaseContext) -> ConvertedCase:
    """Prepare the baseline of a converted case: the build of --against, or on another Triton the
    build of the case that is compared with it."""
    against = context.settings.against
    building = contextlib.nullcontext(build_here()) if against is None else _build(context, against)
    return ConvertedCase(context, context.requested, building, keeps_config=against is not None)


@contextlib.contextmanager
def _build(context: CaseContext, baseline: BaselineSpec) -> Iterator[BuiltModel]:
    """The case's baseline in its own model repository: one that exists, or one built in its own checkout. Its
    own config.pbtxt serves it, as in production: a change of settings is part of the comparison."""

    case = context.requested

    def say(step: str) -> None:
        context.progress.say(f"{case} against {baseline.name}: {step}")

    with contextlib.ExitStack() as stack:
        if baseline.kind == "builds":
            folder = baselines.find_build(baseline, case)
            baselines.check_unchanged(baseline, folder)
        else:
            if (checkout := baseline.folder) is None:
                say("get its files")
                place = context.settings.model_repos / ".against"
                checkout = baselines.export_commit(baseline, place, on_progress=say)
            options = context.settings.command_line("builds", case.model.name)
            built = baselines.build_in_checkout(checkout, baseline, case, options, say)
            context.progress.note(f"{case} against {baseline.name}: built in {built}")
            folder = stack.enter_context(snapshot(built, on_progress=say))
            baselines.check_unchanged(baseline, folder, built)
        yield BuiltModel(case, folder, "", "", 0.0, 0.0, reused=True)
