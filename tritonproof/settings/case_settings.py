"""What the settings make of a model and its cases: samples, deployments and load points."""

import dataclasses
from collections.abc import Sequence

from msgspec import structs

from tritonproof.accuracy.outputs import why_undeclared
from tritonproof.base.errors import InputError
from tritonproof.cases import profile_of
from tritonproof.host.machine import uses_tf32
from tritonproof.record import setup, speed
from tritonproof.settings.settings import Settings
from tritonproof.spec import Arrays, Case, Model, NetworkModel, Samples, Split, Target


def samples_of(model: NetworkModel, split: Split, settings: Settings) -> Samples:
    """A split of a model's data: from --dataset, or the model's own, in the order of its inputs. Raises
    InputError if it is empty, two samples have one id, or one that is read does not fit the model."""
    samples = model.samples(split, settings.dataset.get(model.name), settings.checkpoint.get(model.name))
    where, fix = f"{model.defined_in}: samples of {model.name}", f"see what `samples` returns for {split}"
    if len(set(samples.ids)) < max(1, len(samples)):
        raise InputError("there are none, or two have one id", where=where, fix=fix)

    def read(indices: Sequence[int]) -> Arrays:
        rows = samples.read(indices)
        for tensor in model.inputs:
            if (problem := why_undeclared(tensor, rows.get(tensor.name))) is not None:
                raise InputError(f"a sample does not fit the model: {problem}", where=where, fix=fix)
        return {tensor.name: rows[tensor.name] for tensor in model.inputs}

    return dataclasses.replace(samples, read=read)


def deployment_of(case: Case, settings: Settings) -> setup.Deployment:
    """The deployment of a case: its model's, and whether it computes in TF32."""
    is_tf32 = uses_tf32(case.precision, case.target.device, wanted=settings.tf32)
    return structs.replace(model_deployment(case.model, case.target, settings), tf32=is_tf32)


def model_deployment(model: Model, target: Target, settings: Settings) -> setup.Deployment:
    """The settings that all cases of a model have on a target: its own, with the changes of --deployment."""
    changed = structs.replace(profile_of(model, target).deployment, **settings.deployment)
    if model.takes_single_rows:
        return structs.replace(changed, max_batch_size=1, preferred_batch_sizes=())
    if "preferred_batch_sizes" in settings.deployment:
        return changed
    fitting = tuple(size for size in changed.preferred_batch_sizes if size <= changed.max_batch_size)
    return structs.replace(changed, preferred_batch_sizes=fitting)


def load_points(case: Case, scenario: setup.Scenario, settings: Settings) -> list[speed.LoadPoint]:
    """A case's load points: those that the options ask for, else its profile's. Offline has one request in
    flight of each batch size, else of the largest; online single rows. Rates alone replace concurrencies."""
    profile = profile_of(case.model, case.target)
    if scenario == "offline":
        largest = model_deployment(case.model, case.target, settings).max_batch_size
        fitting = [batch for batch in profile.batches if batch <= largest] or [largest]
        # A model of single rows takes no other batch, whatever --batches asks of the run's other models.
        batches = fitting if case.model.takes_single_rows else settings.batches or fitting
        return [speed.LoadPoint("offline", batch, 1) for batch in batches]
    concurrencies = settings.concurrencies or (() if settings.request_rates else profile.concurrencies)
    rates = [
        speed.LoadPoint("online", 1, 0, rate, settings.arrivals or "poisson")
        for rate in settings.request_rates or ()
    ]
    return [speed.LoadPoint("online", 1, concurrency) for concurrency in concurrencies] + rates
