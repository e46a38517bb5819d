"""The models that a run may select, and the samples and labels that a user brought for them."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.cases import cases_of
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.models import MODEL_NAME, NAME_RULE, all_models, joined
from tritonproof.serve.described_model import list_entries
from tritonproof.serve.remote import connect
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case, Model, NetworkModel, Samples
from tritonproof.user_models import model_from_config
from tritonproof.user_models.labels import LabelOptions, read_labels
from tritonproof.user_models.model_files import imported_models
from tritonproof.user_models.model_repository import RepositoryEntry, entries_in
from tritonproof.user_models.onnx_model import model_of, user_tolerance
from tritonproof.user_models.samples import read_samples


@dataclass(frozen=True)
class AvailableModels:
    """The models that a run may select, and the repositories that have them."""

    selectable: tuple[Model, ...]
    user_supplied: frozenset[str] = frozenset()
    """The names of the models of --models and --onnx, which -k need not name."""
    repository_entries: Mapping[str, RepositoryEntry] = field(default_factory=dict)
    """The entries of --repository, by name of the model."""
    baseline_entries: Mapping[str, RepositoryEntry] = field(default_factory=dict)
    """The entries of the repository of --against, by name of the model."""

    @property
    def only_in_baseline(self) -> frozenset[str]:
        """The names of the models that the repository of --against has and the run's repository lacks."""
        return frozenset(self.baseline_entries.keys() - self.repository_entries.keys())


@contextlib.contextmanager
def models_of(settings: Settings) -> Iterator[AvailableModels]:
    """The models of the settings; within the block the files that define them can be imported. Raises
    InputError for models that cannot be used, and for options that name an unknown model or case."""
    with imported_models(settings.models, all_models()) as own_models:
        if settings.repository is None:
            models = _with_networks(settings, own_models)
        else:
            models = _repository_models(settings)
        counts = {1, settings.gpus}
        settings.thresholds.check_cases(
            lambda: [case for gpus in sorted(counts) for case in every_case(models, gpus)]
        )
        yield models


def _with_networks(settings: Settings, models: tuple[NetworkModel, ...]) -> AvailableModels:
    """The models of the suite and of --models, with those of --onnx."""
    with_weights = {model.name for model in models}
    for name, network in settings.onnx_options.items():
        where = f"--onnx {excerpt(name)}={network.file}"
        if not MODEL_NAME.fullmatch(name):
            fix = f"name it with {NAME_RULE}"
            raise InputError(f"{excerpt(name)} cannot be a model's name", where=where, fix=fix)
        models = joined(models, [model_of(name, network)], where)
    for option, named in (("--checkpoint", settings.checkpoint), ("--dataset", settings.dataset)):
        for name in sorted(named.keys() - with_weights):
            fix = f"use one of {', '.join(sorted(with_weights))}; --onnx and --samples are for ONNX files"
            raise InputError(f"unknown model {excerpt(name)!r}", where=f"{option} {excerpt(name)}=", fix=fix)
    own = {model.name for model in models} - {model.name for model in all_models()}
    return AvailableModels(models, frozenset(own))


def _repository_models(settings: Settings) -> AvailableModels:
    """The models of --repository, with samples and labels, and those that only its baseline has."""
    assert settings.repository is not None
    if isinstance(settings.repository, Path):
        entries = entries_in(settings.repository, f"--repository {settings.repository}")
    else:
        server = connect(settings.triton)
        with contextlib.closing(server.client):
            entries = list_entries(server, settings.repository.names)
    by_name = {entry.name: entry for entry in entries}
    samples = settings.samples.by_model(by_name)
    tolerances, labels = settings.tolerance.by_model(by_name), settings.labels_of(by_name)
    models = []
    for name, entry in by_name.items():
        model = model_from_config.as_model(entry)
        if name in labels:
            if model_from_config.is_complete(entry.config):
                labelled_samples(model, samples[name], labels[name])  # refused before anything runs
            model = model_from_config.with_labels(model, labels[name])
        if name in tolerances:
            model = dataclasses.replace(model, tolerances={"": user_tolerance(tolerances[name], 1.0)})
        models.append(model)
    baseline_entries: dict[str, RepositoryEntry] = {}
    if settings.against is not None and (folder := settings.against.folder) is not None:
        baseline_entries = {entry.name: entry for entry in entries_in(folder, f"--against {folder}")}
        added = [entry for name, entry in baseline_entries.items() if name not in by_name]
        models += map(model_from_config.as_model, added)
    return AvailableModels(tuple(models), frozenset(), by_name, baseline_entries)


def labelled_samples(model: Model, folder: Path, options: LabelOptions) -> Samples:
    """All samples in a folder with their labels. Raises InputError if they do not fit."""
    samples = read_samples(folder, model.inputs)
    return dataclasses.replace(samples, labels=read_labels(options.file, samples.ids, samples.ids))


def every_case(models: AvailableModels, gpus: int) -> list[Case]:
    return [case for target in EVERY_TARGET for case in cases_of(target, gpus, models.selectable)]
