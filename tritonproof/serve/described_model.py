"""A model of an existing repository, served unchanged: how it is loaded, and how its server describes it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tritonproof.base.disk import strict_glob
from tritonproof.base.errors import InputError, NotAvailableError, ProofError, SetupError
from tritonproof.base.sanitize import excerpt, one_line
from tritonproof.serve.connection import MAX_VERSION_CHARS
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server import Server
from tritonproof.spec import ANY
from tritonproof.user_models.model_from_config import gpus_used, why_not_here
from tritonproof.user_models.model_repository import RepositoryEntry, called_entries, check_config, check_name

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig


@dataclass(frozen=True)
class DescribedModel:
    """A model of an existing repository, as described by the server that has loaded it."""

    entry: RepositoryEntry
    called: tuple[RepositoryEntry, ...]
    """The entries of the models that this model calls, which were loaded before it."""
    config: "ModelConfig"
    """The configuration, completed by the server."""
    versions: tuple[str, ...]
    """The served versions, ascending; requests that name no version get the last."""
    loading_s: float
    """Seconds of loading this model and the models that it calls; 0 if it was loaded already."""
    unreported: tuple[str, ...] = ()
    """What the server does not report about the model, as the Open Inference Protocol does not demand it."""

    @property
    def called_names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.called)

    @property
    def backend(self) -> str:
        return str(self.config.backend or self.config.platform)

    @property
    def version(self) -> str:
        """The version that is served, in words."""
        return f"version {self.versions[-1]}" if self.versions else "no named version"

    def __str__(self) -> str:
        """The versions and the called models, for a run's log."""
        others = f" of {', '.join(self.versions)}" if len(self.versions) > 1 else ""
        calls = f"; calls {', '.join(self.called_names)}" if self.called else ""
        return f"{self.version}{others}{calls}"


def load_and_describe(
    server: Server, entry: RepositoryEntry, entries: Mapping[str, RepositoryEntry], gpus: int = 1
) -> DescribedModel:
    """Load a model of the server's repository `entries`, after the models that it calls; on a remote server
    it must be loaded already. Raises NotAvailableError if the server lacks a backend or a GPU, or the model
    is not on all of several `gpus`, and ProofError if it or one of its versions does not load."""
    if entry.problem:
        raise ProofError(entry.problem)
    called = tuple(called_entries(entry, entries))
    started = time.monotonic()
    for part in () if server.spec.is_remote else (*called, entry):
        assert part.folder is not None
        if server.device is not None and (reason := why_not_here(part, server.device)) is not None:
            calls = "" if part is entry else f"{entry.name} calls {part.name}, and "
            raise NotAvailableError(f"{calls}{reason}")
        name = (part.config and part.config.default_model_filename) or "model.py"
        if part.backend == "python" and not strict_glob(part.folder, f"*/{name}"):
            # The backend would wait for the missing code for ever.
            fix = f"put it into the folder of a version: {part.folder / '1' / excerpt(name)}"
            what = f"{part.name} is of the Python backend, without {name!a}"
            raise ProofError(what, where=part.folder, fix=fix)
        load_folder(server, part.folder)
    loading_s = 0.0 if server.spec.is_remote else round(time.monotonic() - started, 3)
    versions = _versions(server, entry)
    config, is_reported = model_config_of(server, entry.name)
    configs = [config, *(model_config_of(server, part.name)[0] for part in called if gpus > 1)]
    if gpus > 1 and (used := gpus_used(configs)) not in (None, gpus):
        what = f"{entry.name} has instances on {used} GPUs, and not on {gpus}"
        raise NotAvailableError(what, fix="leave --gpus out, or change its instance groups")
    unreported = [] if is_reported else ["configuration"]
    question = f"what it has counted of {entry.name}"
    if server.spec.is_remote and server.query(question, "get_inference_statistics", entry.name) is None:
        unreported.append("statistics")
    return DescribedModel(entry, called, config, versions, loading_s, tuple(unreported))


def list_entries(server: Server, names: Sequence[str] = ()) -> list[RepositoryEntry]:
    """Entries of the models by these `names`, or else of all that a server has loaded, with configurations.
    Raises SetupError if there are none or the server does not say, InputError for an impossible name."""
    where = f"--triton {server.spec}"
    try:
        index = _index(server)
        if index is None and not names:
            fix = "name those that are to be proven: --repository remote:NAME,NAME"
            raise SetupError("the server does not list its models", where=where, fix=fix)
        # MLServer writes State.READY.
        ready = {indexed.name for indexed in index or () if indexed.state.removeprefix("State.") == "READY"}
        names = sorted(names or ready)
        if not names:
            fix = "load the models there; a server that somebody else runs is left as it is"
            raise SetupError("the server has no model loaded", where=where, fix=fix)
        for name in names:
            check_name(name, where)
        return [RepositoryEntry(name, None, model_config_of(server, name)[0]) for name in names]
    except InputError:
        raise
    except ProofError as error:
        raise SetupError(error.what, where=where, fix="see the server's own log") from error


def _index(server: Server) -> Sequence[Any] | None:
    """The server's index of models and their versions; None if it does not have this call."""
    index = server.query("which models it has", "get_model_repository_index")
    return index and index.models


def model_config_of(server: Server, name: str) -> "tuple[ModelConfig, bool]":
    """A loaded model's configuration, and whether the server reported it; if not, it is made from metadata.
    Raises ProofError if the server does not answer or the configuration is invalid."""
    answer = server.query(f"how {name} is configured", "get_model_config", name)
    try:
        model_config = answer.config if answer is not None else _by_metadata(server, name)
        check_config(model_config)
    except ValueError as error:
        raise ProofError(f"the server gave no valid configuration of {name}: {error}", where=name) from error
    return model_config, answer is not None


def _by_metadata(server: Server, name: str) -> "ModelConfig":
    """A configuration made from a model's metadata. Raises ValueError for unknown types of tensors."""
    from tritonclient.grpc import model_config_pb2 as pb

    metadata = server.query(f"which inputs {name} has", "get_model_metadata", name)
    if metadata is None or not metadata.inputs or not metadata.outputs:
        what = f"the server says neither how {name} is configured nor which inputs and outputs it has"
        raise ProofError(what, where=name, fix="name them in the model's metadata on the server")
    # Triton describes a model with batches by one more axis, of any length, at the front of every tensor.
    is_batched = all(tensor.shape[:1] == [ANY] for tensor in (*metadata.inputs, *metadata.outputs))
    config = pb.ModelConfig(name=name, platform=metadata.platform or "unknown")
    config.max_batch_size = 8 if is_batched else 0  # the server does not say how large
    for tensors, declared in ((metadata.inputs, config.input), (metadata.outputs, config.output)):
        for tensor in tensors:
            kind = pb.DataType.Value(f"TYPE_{'STRING' if tensor.datatype == 'BYTES' else tensor.datatype}")
            declared.add(name=tensor.name, data_type=kind, dims=tensor.shape[is_batched:])
    return cast("ModelConfig", config)


def _versions(server: Server, entry: RepositoryEntry) -> tuple[str, ...]:
    """The versions that are ready. Raises ProofError with the server's reason if one does not load."""
    index = [indexed for indexed in _index(server) or () if indexed.name == entry.name and indexed.version]
    if not index and server.spec.is_remote:
        metadata = server.query(f"which versions {entry.name} has", "get_model_metadata", entry.name)
        versions = metadata.versions if metadata else ()
        return tuple(one_line(version, MAX_VERSION_CHARS) for version in versions)
    for indexed in index:
        if indexed.state == "UNAVAILABLE" and indexed.reason not in ("", "unloaded"):
            why = f"{indexed.reason}{server.log_tail()}"
            what = f"version {indexed.version} of {entry.name} does not load: {why}"
            raise ProofError(what, where=entry.folder and entry.folder / indexed.version)
    ready = [one_line(indexed.version, MAX_VERSION_CHARS) for indexed in index if indexed.state == "READY"]
    if not ready:
        raise ProofError(f"no version of {entry.name} is ready{server.log_tail()}", where=entry.folder)
    return tuple(sorted(ready, key=lambda version: (len(version), version)))  # numbers, by their value
