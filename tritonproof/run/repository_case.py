"""A case that is a model of --repository: its server loads it as it is, reports its configuration and answers
a first request. From then on it is a case like any other."""

import contextlib
import dataclasses
import hashlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tritonproof.accuracy.outputs import why_undeclared
from tritonproof.base.disk import file_digest, strict_walk
from tritonproof.base.errors import AccuracyError, InputError, NotAvailableError, ProofError
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.build.builds import CaseBuild
from tritonproof.build.configuration import config_text
from tritonproof.client.requests import LoadedAs
from tritonproof.client.streams import StreamedRequest, converse, sequence_of
from tritonproof.host.scratch import scratch_folder
from tritonproof.record.setup import BuildFacts, ConfigVariant, Deployment, Scenario
from tritonproof.run.available_models import labelled_samples
from tritonproof.run.prepared_case import CaseScope
from tritonproof.serve.described_model import DescribedModel, load_and_describe
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import deployment_of
from tritonproof.spec import Arrays, Case, Model, Samples
from tritonproof.user_models import model_from_config
from tritonproof.user_models.labels import LabelOptions
from tritonproof.user_models.model_repository import RepositoryEntry, link_repository
from tritonproof.user_models.network_samples import VARIABLE_LENGTHS, synthetic_samples
from tritonproof.user_models.samples import read_samples

_INTEGER_BOUNDS = (10, 1)
"""Exclusive upper bounds of made-up integers and digits, tried in turn: 10 gives distinct values, 1 zeros."""


@dataclass(frozen=True)
class AcceptedSamples:
    """The samples that a model accepts, from which all requests are made, and its answer to the first."""

    samples: Samples
    first_request_s: float
    answer: Arrays | None
    """The answer to the first request, [1, ...] each; None for a model without single requests."""


@dataclass(frozen=True)
class RepositoryCase:
    """A `PreparedCase` that is a model of --repository, on its server after its first answer."""

    case: Case
    """The case, completed by what only its server knew: inputs, outputs, batch sizes."""
    deployment: Deployment
    server: Server
    described: DescribedModel
    build: CaseBuild
    """The model's files, and its configuration as completed by the server."""
    accepted_samples: AcceptedSamples
    open_in_process = None

    @property
    def samples(self) -> Samples:
        return self.accepted_samples.samples

    @property
    def loaded(self) -> LoadedAs:
        accepted, described, config = self.accepted_samples, self.described, self.described.config
        first_answer = accepted.answer if described.entry.folder else None  # others may have asked before
        may_join = config.ensemble_scheduling.step or described.called or described.unreported
        joins_requests = bool(may_join) or config.HasField("dynamic_batching")  # as far as the server says
        times = described.loading_s, accepted.first_request_s
        return LoadedAs(self.variant_for("online"), described.backend, first_answer, joins_requests, *times)

    def variant_for(self, _scenario: Scenario) -> ConfigVariant:
        return ConfigVariant("online", self.deployment)

    def load(self, _variant: ConfigVariant) -> LoadedAs:
        assert self.described.entry.folder is not None
        load_folder(self.server, self.described.entry.folder)
        return dataclasses.replace(self.loaded, first_answer=None)


@contextlib.contextmanager
def serve_repository_case(
    scope: CaseScope, entries: Mapping[str, RepositoryEntry], shared_samples: Samples | None = None
) -> Iterator[RepositoryCase]:
    """The case, served, after its first answer. `entries` are its repository's models by name, which it may
    call. A baseline gets the `shared_samples` of its case, without labels; others the settings' samples."""
    case, settings, name = scope.requested, scope.settings, scope.requested.model.name
    if name not in entries:
        what = f"{name} is not in this repository, so that its clients would get no answers"
        fix = f"add the model, or leave it out of the comparison: -k 'not {name}'"
        raise AccuracyError(what, where=f"--repository {settings.repository}", fix=fix)
    if (reason := model_from_config.why_not_here(entries[name], case.answers_on)) is not None:
        raise NotAvailableError(reason)  # before a server is started
    labels = settings.labels_of(entries).get(name) if shared_samples is None else None
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder("repository"))
        if settings.triton.kind == "docker" and isinstance(settings.repository, Path):
            repository = settings.repository  # a container gets the user's own, read-only
        else:
            repository = scratch / "models"
            repository.mkdir()
            link_repository(entries.values(), repository)
        server = stack.enter_context(scope.open_server(repository, auto_complete=True))
        scope.say("load into Triton as it is")
        with scope.model_run.hold_machine(exclusive=False):
            model, described, accepted_samples = _describe_and_ask(
                scope, server, entries, labels, shared_samples
            )
        scope.note(f"{scope.label}: {described}; requests: {accepted_samples.samples.source}")
        served_format = dataclasses.replace(case.format, library=described.backend)
        case = dataclasses.replace(case, model=model, format=served_format)
        (as_served := scratch / "as-served").mkdir()
        build = as_build(case, described, as_served)
        yield RepositoryCase(case, deployment_of(case, settings), server, described, build, accepted_samples)


def _describe_and_ask(
    scope: CaseScope,
    server: Server,
    entries: Mapping[str, RepositoryEntry],
    labels: LabelOptions | None,
    shared_samples: Samples | None,
) -> tuple[Model, DescribedModel, AcceptedSamples]:
    """Load a model of a repository and send its first request. Returns the model as its server completed it,
    the server's description of it, and the samples that it accepts."""
    requested, name = scope.requested.model, scope.requested.model.name

    def user_samples(model: Model) -> Samples | None:
        folder = scope.settings.samples.by_model(entries).get(name)
        if folder is None or not model.inputs:
            return None
        if labels is not None:
            samples = labelled_samples(model, folder, labels)
        else:
            samples = read_samples(folder, model.inputs, several=model.takes_single_requests)
        return dataclasses.replace(samples, source="the samples that were given")

    samples = shared_samples
    if model_from_config.is_complete(entries[name].config):  # or else the server may add inputs
        samples = samples or user_samples(requested)  # refused before anything is loaded
    described = load_and_describe(server, entries[name], entries, scope.requested.gpus)
    model = model_from_config.with_config(requested, described.config, described.called)
    if labels is not None:
        model = model_from_config.with_labels(model, labels)
    if shared_samples is not None:
        if others := other_inputs(model, shared_samples):
            what = f"{scope.label} takes other inputs: {', '.join(others)}"
            raise AccuracyError(what, where=scope.requested)
        taken = [group for group in shared_samples.other_shapes if not other_inputs(model, group)]
        source = "those of the case that is compared"
        samples = dataclasses.replace(shared_samples, other_shapes=taken, source=source)
    accepted = send_first_request(server, model, samples or user_samples(model))
    if described.unreported:
        source = f"{accepted.samples.source}; the server does not give {' and '.join(described.unreported)}"
        accepted = dataclasses.replace(accepted, samples=dataclasses.replace(accepted.samples, source=source))
    return model, described, accepted


def other_inputs(model: Model, samples: Samples) -> list[str]:
    """The inputs of a model that do not take these samples, each with its type and shape."""
    rows = samples.read([0])
    return [
        f"{tensor.name} ({tensor.dtype}) {list(tensor.shape)}"
        for tensor in model.inputs
        if (tensor.name in rows or not tensor.optional) and why_undeclared(tensor, rows.get(tensor.name))
    ]


def as_build(case: Case, described: DescribedModel, folder: Path) -> CaseBuild:
    """The files of a model and of those that it calls, as a build; its config.pbtxt, as completed by the
    server, is written into `folder`. For a remote model the build is what its server reports."""
    config = config_text(described.config)
    (folder / CONFIG_FILE).write_text(config)
    digest = hashlib.sha256(config.encode())
    digest.update(" ".join(described.versions).encode())
    size = 0
    for entry in (described.entry, *described.called):
        if entry.folder is None:
            continue
        for path in sorted(strict_walk(entry.folder, follow_links=True)):
            relative = Path(entry.name, path.relative_to(entry.folder))
            if path.is_file():
                size += path.stat().st_size
                if path.suffix != ".pyc":
                    digest.update(f"{relative} {file_digest(path)}".encode())
            elif path.is_symlink():  # of two links to one folder, only the first has files
                target = os.path.relpath(os.path.realpath(path), os.path.realpath(entry.folder))
                digest.update(f"{relative} {target}".encode())
    place = "" if described.entry.folder is not None else " on the server"
    weights_source = f"as it is{place}, {described.version}"
    facts = BuildFacts(digest.hexdigest(), weights_source, 0.0, round(size / 2**20, 3))
    return CaseBuild(case, folder, facts)


def send_first_request(server: Server, model: Model, samples: Samples | None) -> AcceptedSamples:
    """Send the first of `samples`. Without any, make some up, with the first length of variable dimensions
    that the server takes and a request can hold.

    Raises InputError if no request can hold a row, ProofError if the model answers none of them, or
    NotAvailableError if its configuration does not say which values it takes.
    """
    if samples is not None:
        count = sum(map(len, samples.other_shapes))
        if count:
            source = f"{samples.source}, {count} of other shapes than most, one to a request"
            samples = dataclasses.replace(samples, source=source)
        return AcceptedSamples(samples, *_ask(server, model, samples))
    is_variable = any(-1 in tensor.shape for tensor in model.inputs)
    first_error: ProofError | None = None
    discrete = [input_.name for input_ in model.inputs if not input_.dtype.startswith(("FP", "BF", "BOOL"))]
    lengths = VARIABLE_LENGTHS if is_variable else VARIABLE_LENGTHS[:1]
    for length, bound in itertools.product(lengths, _INTEGER_BOUNDS if discrete else _INTEGER_BOUNDS[:1]):
        try:
            # Raises InputError for a length whose rows are too large.
            samples = synthetic_samples(model.inputs, dict.fromkeys(discrete, bound), length)
            answered = _ask(server, model, samples)
        except ProofError as error:
            if not server.is_live():
                raise
            if first_error is None or isinstance(first_error, InputError):
                first_error = error
            continue
        source = "made up from the configuration" + (f", integers below {bound}" if discrete else "")
        if any(input_.dtype == "BYTES" for input_ in model.inputs):
            source += ", texts of one character: what is done with longer ones is not tried"
        if is_variable:
            source += f", variable dimensions {length} long"
        return AcceptedSamples(dataclasses.replace(samples, source=source), *answered)
    assert first_error is not None
    if (is_variable or discrete) and not isinstance(first_error, InputError):
        refusal = f"{model.name} refuses made-up samples; it needs real ones (--samples {model.name}=DIR)"
        raise NotAvailableError(f"{refusal}: {first_error.what.splitlines()[0]}")
    raise first_error


def _ask(server: Server, model: Model, samples: Samples) -> tuple[float, Arrays | None]:
    """The seconds of a request for the first sample, and its answer. Raises ProofError for a refusal."""
    row, answer = dict(samples.read([0])), None
    started = time.monotonic()
    if model.takes_single_requests:
        outputs = server.infer(model.name, model, row)
        answer = {name: values for name, values in outputs.items() if values is not None}
    else:
        # Two requests: code that treats a sequence's first and last request often expects none to be both.
        is_sequence = model.exchange == "sequence"
        converse(server, model, sequence_of([row, row], 1) if is_sequence else [StreamedRequest(row)])
    return time.monotonic() - started, answer
