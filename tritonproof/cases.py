"""The cases that exist; the reference, the published figures and the profile that belong to a case."""

from collections.abc import Iterable, Iterator

from tritonproof import spec
from tritonproof.formats import variant_name, variants_on
from tritonproof.models import all_models
from tritonproof.spec import Case, Device, Format, Model, NetworkModel, ServingProfile, Target
from tritonproof.user_models.model_from_config import AS_IS


def cases_of(target: Target, gpus: int = 1, models: Iterable[Model] | None = None) -> Iterator[Case]:
    """Every case of `models`, by default the suite's own, on a target; `gpus` serve each on a GPU target."""
    for model in all_models() if models is None else models:
        yield from cases_of_model(model, target, gpus)


def cases_of_model(model: Model, target: Target, gpus: int) -> Iterator[Case]:
    """Every case of a model on a target; `gpus` serve each on a GPU target."""
    count = gpus if target.device == "cuda" else 1
    if not isinstance(model, NetworkModel):
        # Its own configuration says on which devices and in which precision it computes.
        yield Case(target, model, AS_IS, None, "", count)
        return
    for format_, accelerator, precision in variants_on(target.device):
        if precision in precisions_of(model, format_, target.device):
            yield Case(target, model, format_, accelerator, precision, count)


def precisions_of(model: NetworkModel, format_: Format, device: Device) -> list[str]:
    """The precisions that a model and a format share on a device, without those that the model excludes."""
    if model.framework not in format_.frameworks or format_.name in model.excluded:
        return []
    shared = [precision for precision in format_.precisions.get(device, ()) if precision in model.precisions]
    return [precision for precision in shared if f"{format_.name}-{precision}" not in model.excluded]


def has_nvidia_figures(case: Case) -> bool:
    """Whether NVIDIA published figures of the case on its hardware."""
    profile = case.model.profiles.get(case.target.name)
    return profile is not None and _variant(case) in profile.nvidia_formats


def reference_of(case: Case) -> Case:
    """The case by whose speed those of the model's other formats on this target are divided: the first of the
    published formats, else ONNX in FP32, else the model's first case."""
    by_variant = {_variant(each): each for each in cases_of_model(case.model, case.target, case.gpus)}
    profile = case.model.profiles.get(case.target.name)
    preferred = (*(profile.nvidia_formats if profile else ()), "onnx-fp32", *by_variant)
    return next(by_variant[variant] for variant in preferred if variant in by_variant)


def _variant(case: Case) -> str:
    """The case's format, accelerator and precision, as `ServingProfile.nvidia_formats` names them."""
    return variant_name(case.format, case.accelerator, case.precision)


def profile_of(model: Model, target: Target) -> ServingProfile:
    """The model's profile for the target, else that for all CPUs or all GPUs, its own or the default."""
    kind = "cpu" if target.device == "cpu" else "gpu"
    return model.profiles.get(target.name) or model.profiles.get(kind) or spec.DEFAULT_PROFILES[kind]
