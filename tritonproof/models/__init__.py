"""The models. Each file or package here, unless its name begins with an underscore, defines one network and
lists its sizes in MODELS. A package has the network, the weights and the recipe in its module `network`.

This module finds the models, and checks MODELS of these and of a user's file.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, get_type_hints

import msgspec

from tritonproof.base import commands
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.record.correctness import Limit
from tritonproof.safe_io.files import check_fields, modules_in
from tritonproof.spec import Format, Framework, NetworkModel, Precision, ServingProfile, Tolerance


@functools.cache
def all_models() -> tuple[NetworkModel, ...]:
    """Every model of every file and package in this folder, in the order of their names."""
    modules = modules_in(__name__, __path__)
    return tuple(model for module, source in modules for model in listed_models(module, source))


def joined(
    known: Iterable[NetworkModel], more: Iterable[NetworkModel], where: str
) -> tuple[NetworkModel, ...]:
    """The models of two sources. Raises InputError if a name repeats; `where` says where `more` come from."""
    by_name = {model.name: model for model in known}
    for model in more:
        if model.name in by_name:
            fix = f"give it a name of its own; the names that are taken: {', '.join(sorted(by_name))}"
            raise InputError(f"there is a model {model.name} already", where=where, fix=fix)
        by_name[model.name] = model
    return tuple(by_name.values())


MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,99}(-[A-Za-z0-9_.]{1,99}){0,20}")
"""The names that a model may have: a name is part of a test's id, and a folder's name."""
NAME_RULE = "letters, digits, _ and ., in words joined by single hyphens"
"""What MODEL_NAME allows, in words for an error."""
MODELS_VARIABLE = "MODELS"
"""The name of the tuple in which a file lists its models."""


def listed_models(module: ModuleType, where: str) -> tuple[NetworkModel, ...]:
    """The models of a module; `where` is the file, or the option that names it. Raises InputError."""
    listed = getattr(module, MODELS_VARIABLE, ())
    models = tuple(listed) if isinstance(listed, tuple | list) else (listed,)
    if not models or not all(isinstance(model, NetworkModel) for model in models):
        what = f"the file has no {MODELS_VARIABLE}, a tuple of values of tritonproof.spec.NetworkModel"
        new = commands.tool_command("new", "NAME")
        fix = f"end it with {MODELS_VARIABLE} = (NetworkModel(...),), as {new} writes it"
        raise InputError(what, where=where, fix=fix)
    for model in models:
        if not isinstance(model.name, str) or not MODEL_NAME.fullmatch(model.name):
            name = excerpt(str(model.name))
            raise InputError(f"{name!r} cannot be a model's name", where=where, fix=f"use {NAME_RULE}")
        check_fields(model, _hints(), where)
        for metric in model.metrics:
            check_fields(metric, {"limits": Mapping[Precision, Limit]}, where)
        if not model.metrics[0].limits:
            what = f"{model.name} runs in no precision, as its first metric has no limits"
            raise InputError(what, where=where, fix='limit it: limits={"fp32": Limit(VALUE, SOURCE)}')
    return models


def _hints() -> Mapping[str, Any]:
    """The type of each field of a model, with Any for what msgspec cannot convert: NumPy's arrays, Metric."""
    names = {"np": SimpleNamespace(ndarray=Any), "SamplePart": Any, "Format": Format}
    hints = get_type_hints(NetworkModel, localns=names)
    hints |= {"metrics": tuple[Any, ...], "defined_in": Any, "framework": Framework}
    target = Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(known.name for known in EVERY_TARGET)})\Z")]
    hints |= {"profiles": Mapping[target, ServingProfile], "tolerances": Mapping[Precision, Tolerance]}
    not_empty = msgspec.Meta(min_length=1)
    return hints | {name: Annotated[hints[name], not_empty] for name in ("inputs", "outputs", "metrics")}
