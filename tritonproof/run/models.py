"""The models of a run: the suite's own with those of --models and --onnx, or those of --repository; what the
settings make of a model and its cases: samples, deployment, load points, builds; and what its cases share."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from tritonproof.accuracy.stages import StageAnswers, evaluate_in_process, framework_model_on
from tritonproof.build import repository
from tritonproof.cases import cases_of, matrix_of
from tritonproof.errors import InputError
from tritonproof.frameworks import flops
from tritonproof.host import locks
from tritonproof.host.machine import uses_tf32
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.models import NAME, NAMES_IN_WORDS, all_models, joined
from tritonproof.run.narrator import Narrator
from tritonproof.run.once import once
from tritonproof.run.settings import Settings
from tritonproof.safe_io.files import shown
from tritonproof.serve.as_is import list_models
from tritonproof.serve.backends import local_backends, serves_natively
from tritonproof.serve.launch import connect
from tritonproof.spec import (
    Case,
    Deployment,
    Device,
    LoadPoint,
    Model,
    Samples,
    Scenario,
    Split,
    Target,
    Weights,
)
from tritonproof.user_models import repository_model
from tritonproof.user_models.labels import LabelOptions, read_labels
from tritonproof.user_models.model_files import loaded_models
from tritonproof.user_models.onnx_file import model_of, user_tolerance
from tritonproof.user_models.repository import RepositoryModel, models_in
from tritonproof.user_models.samples import read_samples


@dataclass(frozen=True)
class AvailableModels:
    """The models that a run may select, and what a user brought for them."""

    all: tuple[Model, ...]
    user_supplied: frozenset[str] = frozenset()
    """The names of the models of --models and --onnx, which -k need not name."""
    repository_models: Mapping[str, RepositoryModel] = field(default_factory=dict)
    samples: Mapping[str, Path] = field(default_factory=dict)
    """The folder of the samples of a model of --repository, by its name, as are the others."""
    labels: Mapping[str, LabelOptions] = field(default_factory=dict)
    baseline_models: Mapping[str, RepositoryModel] = field(default_factory=dict)
    """The models of the repository of --against."""


@contextlib.contextmanager
def models_of(settings: Settings) -> Iterator[AvailableModels]:
    """The models of the settings, whose files can be imported within the block. Raises InputError for models
    that cannot be used, and for options that name an unknown model or case."""
    with loaded_models(settings.models, all_models()) as own_models:
        if settings.repository is None:
            models = _with_networks(settings, own_models)
        else:
            models = _repository_models(settings)
        counts = {1, settings.gpus}
        settings.thresholds.check_cases(
            lambda: [case for gpus in sorted(counts) for case in every_case(models, gpus)]
        )
        yield models


def _with_networks(settings: Settings, models: tuple[Model, ...]) -> AvailableModels:
    """The models of the suite and of --models, with those of --onnx."""
    for name, network in settings.networks.items():
        where = f"--onnx {shown(name)}={network.file}"
        if not NAME.fullmatch(name):
            fix = f"name it with {NAMES_IN_WORDS}"
            raise InputError(f"{shown(name)} cannot be a model's name", where=where, fix=fix)
        models = joined(models, [model_of(name, network)], where)
    names = {model.name for model in models}
    for option, named in (("--checkpoint", settings.checkpoint), ("--dataset", settings.dataset)):
        for name in sorted(named.keys() - names):
            fix = f"use one of {', '.join(sorted(names))}"
            raise InputError(f"unknown model {shown(name)!r}", where=f"{option} {shown(name)}=", fix=fix)
    return AvailableModels(models, frozenset(names - {model.name for model in all_models()}))


def _repository_models(settings: Settings) -> AvailableModels:
    """The models of --repository, with samples and labels, and those that its baseline has beside them."""
    assert settings.repository is not None
    if isinstance(settings.repository, Path):
        entries = models_in(settings.repository, f"--repository {settings.repository}")
    else:
        server = connect(settings.triton.location, settings.triton.access)
        with contextlib.closing(server.client):
            entries = list_models(server, settings.repository.names)
    repository_models = {entry.name: entry for entry in entries}
    samples = settings.samples.of(repository_models)
    tolerances, labels = settings.tolerance.of(repository_models), settings.labels_of(repository_models)
    models = []
    for name, entry in repository_models.items():
        model = repository_model.as_model(entry)
        if name in labels:
            if labels[name].floor is None:
                what = f"--labels needs --floor for {name}: a model as served has no framework's score"
                where = f"--labels {labels[name].file}"
                raise InputError(what, where=where, fix="add --floor, such as --floor 0.75")
            if repository_model.is_complete(entry.config):
                labelled_samples(model, samples[name], labels[name])  # refused before anything runs
            model = repository_model.with_labels(model, labels[name])
        if name in tolerances:
            tolerance = user_tolerance(tolerances[name], 1.0)
            model = dataclasses.replace(model, tolerances={"": tolerance})
        models.append(model)
    baseline_models: dict[str, RepositoryModel] = {}
    if settings.against is not None and (folder := settings.against.folder) is not None:
        baseline_models = {entry.name: entry for entry in models_in(folder, f"--against {folder}")}
        missing = [entry for name, entry in baseline_models.items() if name not in repository_models]
        for model in map(repository_model.as_model, missing):
            models.append(dataclasses.replace(model, only_format=repository_model.MISSING))
    return AvailableModels(tuple(models), frozenset(), repository_models, samples, labels, baseline_models)


def samples_in_folder(model: Model, folder: Path | None, *, several: bool = False) -> Samples | None:
    """The samples in a folder, of one or `several` shapes; None without a folder or known inputs."""
    if folder is None or not model.inputs:
        return None
    optional = [tensor.name for tensor in model.inputs if tensor.optional]
    return read_samples(folder, model.inputs, optional=optional, several=several)


def labelled_samples(model: Model, folder: Path, given: LabelOptions) -> Samples:
    """All samples in a folder with their labels. Raises InputError if they do not fit."""
    samples = samples_in_folder(model, folder)
    assert samples is not None
    return dataclasses.replace(samples, labels=read_labels(given.file, samples.ids, samples.ids))


def every_case(models: AvailableModels, gpus: int) -> list[Case]:
    return [case for target in EVERY_TARGET for case in cases_of(target, gpus, models.all)]


# --- what the settings make of a model and its cases --------------------------------------------------------


def samples_of(model: Model, split: Split, settings: Settings) -> Samples:
    """A split of a model's data: from --dataset, or the model's own."""
    return model.samples(split, settings.dataset.get(model.name), settings.checkpoint.get(model.name))


def deployment_of(case: Case, settings: Settings) -> Deployment:
    """The settings of a case on the server: its model's, and whether it computes in TF32."""
    is_tf32 = uses_tf32(case.precision, case.target.device, wanted=settings.tf32)
    return structs.replace(model_deployment(case.model, case.target, settings), tf32=is_tf32)


def model_deployment(model: Model, target: Target, settings: Settings) -> Deployment:
    """The settings that all cases of a model have on a target: its own, with the changes of --deployment."""
    changed = structs.replace(matrix_of(model, target).deployment, **settings.deployment)
    if model.takes_single_rows:
        return structs.replace(changed, max_batch_size=1, preferred_batch_sizes=())
    if "preferred_batch_sizes" in settings.deployment:
        return changed
    fitting = tuple(size for size in changed.preferred_batch_sizes if size <= changed.max_batch_size)
    return structs.replace(changed, preferred_batch_sizes=fitting)


def check_batches(case: Case, batches: Iterable[int], settings: Settings) -> None:
    """Raise InputError if the server would refuse one of these batches of --batches, or would not load the
    model for a preferred batch size larger than its largest batch."""
    deployment = model_deployment(case.model, case.target, settings)
    largest = deployment.max_batch_size
    preferred = deployment.preferred_batch_sizes
    for option, sizes in (("--batches", batches), ("--deployment preferred_batch_sizes", preferred)):
        if (wanted := max(sizes, default=0)) > largest:
            what = f"batch {wanted} is larger than the largest batch of {case.model.name}, {largest}"
            fix = f"add max_batch_size={wanted} to --deployment, or name other models with -k"
            raise InputError(what, where=option, fix=fix)


def load_points(case: Case, scenario: Scenario, settings: Settings) -> list[LoadPoint]:
    """A case's load points: those that the options ask for, else the matrix's own. Offline has one request in
    flight of each batch size, online single requests. Request rates alone replace the concurrencies."""
    matrix = matrix_of(case.model, case.target)
    if scenario == "offline":
        largest = model_deployment(case.model, case.target, settings).max_batch_size
        fitting = [batch for batch in matrix.batches if batch <= largest]
        # A model of single rows takes no other batch, whatever --batches asks of the run's other models.
        batches = fitting if case.model.takes_single_rows else settings.batches or fitting
        return [LoadPoint("offline", batch, 1) for batch in batches]
    concurrencies = settings.concurrencies or (() if settings.request_rates else matrix.concurrencies)
    rates = [LoadPoint("online", 1, 0, rate, settings.arrivals) for rate in settings.request_rates or ()]
    return [LoadPoint("online", 1, concurrency) for concurrency in concurrencies] + rates


def build_case(
    case: Case,
    weights: Weights,
    settings: Settings,
    report: Callable[[str], None],
    *,
    device: Device | None = None,
) -> repository.BuiltModel:
    """Convert the case for the server that --triton names, on its target's kind of device or `device`."""
    backends = local_backends(settings.triton.location) if settings.triton.kind == "local" else None
    return repository.build(
        case,
        weights,
        deployment_of(case, settings),
        settings.model_repos,
        native=serves_natively(settings.triton.kind, backends, case.format),
        calibration=lambda: samples_of(case.model, "training", settings),
        report=report,
        device=device,
    )


def evaluation_batch(deployment: Deployment) -> int:
    """Rows of a batch in process: enough for every core, and small beside the weights."""
    return min(32, deployment.max_batch_size)


# --- what the cases of a model share ------------------------------------------------------------------------


@dataclass(eq=False)
class ModelRun(contextlib.ExitStack):
    """What the cases of a model on a target share, for the length of a `with` block."""

    model: Model
    target: Target
    settings: Settings
    models: AvailableModels = field(default_factory=lambda: AvailableModels(()))
    """The models of the run; those of --repository may call each other."""
    narrator: Narrator = field(default_factory=lambda: Narrator(os.dup(2), live=False))
    reference_runs: dict[str, Any] = field(default_factory=dict, init=False)
    """The runs of reference formats, by the id of their case."""

    def __post_init__(self) -> None:
        super().__init__()

    def hold_machine(self, *, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        on_wait = self.narrator.waits(f"{self.model.name}: wait for the machine")
        return locks.hold_machine(exclusive=exclusive, on_wait=on_wait)

    def say(self, step: str, detail: str = "") -> None:
        self.narrator.say(f"{self.model.name}: {step}", detail)

    @once
    def weights(self) -> Weights:
        """The framework model: from --checkpoint, the repository's own, or seeded random ones."""
        with self.hold_machine(exclusive=False):
            if not self.model.as_is:
                self.say("load weights")
            return self.model.load(self.settings.checkpoint.get(self.model.name))

    @once
    def framework_model(self) -> Weights:
        """The framework model to compare converted models with, whether those are new or reused."""
        with self.hold_machine(exclusive=False):
            return framework_model_on(self.target.device, self.model, self.weights)

    @once
    def samples(self) -> Samples:
        """The evaluation split: from --dataset, or the model's own."""
        with self.hold_machine(exclusive=False):
            return samples_of(self.model, "evaluation", self.settings)

    @once
    def framework_answers(self) -> StageAnswers:
        """The framework's answers to the whole evaluation set."""
        run: Callable[[Any], Any] = functools.partial(self.model.run, self.framework_model.network)
        batch = evaluation_batch(model_deployment(self.model, self.target, self.settings))
        report = functools.partial(self.say, "evaluate by the framework")
        with self.hold_machine(exclusive=False):
            return evaluate_in_process(
                "framework", self.model, run, self.samples, batch, report, with_outputs=True
            )

    @once
    def operations(self) -> float | None:
        """Floating-point operations of one inference; None if the framework cannot count."""
        return flops.count(self.model, self.weights.network, self.samples.load([0]))
