"""Finds the models in a user's repository by their files, and links these, so that nothing writes there."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tritonproof.base.disk import is_plain, strict_glob, strict_walk
from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.paths import CONFIG_FILE
from tritonproof.base.sanitize import excerpt
from tritonproof.safe_io.files import MAX_DIMENSIONS, MAX_SETTINGS_BYTES, read_bytes, read_text, readable
from tritonproof.spec import ANY

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

_FIX = "give the folder of a model repository"
_MAX_NAME_CHARS = 200
"""A file's name has at most 255 bytes (NAME_MAX in linux/limits.h), and a record's extends the model's."""
_BACKEND_BY_PLATFORM = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
}
"""The backend of a `platform`. Source: triton-inference-server/core r24.10, src/model_config_utils.cc."""
_BACKEND_BY_FILE = {
    "model.onnx": "onnxruntime",
    "model.pt": "pytorch",
    "model.plan": "tensorrt",
    "model.graphdef": "tensorflow",
    "model.savedmodel": "tensorflow",
    "model.xml": "openvino",
    "model.py": "python",
}
"""The backend that Triton chooses by the file in the version folder. Source: as above."""


@dataclass(frozen=True)
class RepositoryEntry:
    """A model in a repository, its folder with its configuration; or one that a server has loaded."""

    name: str
    """The name of the model on the server, and of its folder."""
    folder: Path | None
    """The model's folder; None if only the server has it."""
    config: "ModelConfig | None"
    """The configuration in config.pbtxt or from the server; None if the server generates one."""
    problem: str = ""
    """Why its config.pbtxt cannot be read; empty if it can."""

    @property
    def is_ensemble(self) -> bool:
        """Whether it is made of other models, which Triton itself calls."""
        return self.config is not None and bool(self.config.ensemble_scheduling.step)

    @property
    def backend(self) -> str:
        """The backend that the model needs; empty for an ensemble, or if the files do not tell."""
        if self.is_ensemble:
            return ""
        if self.config is not None and (self.config.backend or self.config.platform):
            return str(self.config.backend or _BACKEND_BY_PLATFORM.get(self.config.platform, ""))
        if self.folder is None:
            return ""
        with readable("the model's folder", self.folder, _FIX):
            names = {path.name for path in strict_glob(self.folder, "*/model.*")}
        return next((backend for name, backend in _BACKEND_BY_FILE.items() if name in names), "")


def entries_in(root: Path, where: str) -> list[RepositoryEntry]:
    """The entries of the repository `root`, which the option `where` names, sorted by name. Raises InputError
    for any other folder, and for a model whose name no record can have."""
    with readable("the repository", where, _FIX):
        if not root.is_dir():
            raise InputError("there is no such folder", where=where, fix=_FIX)
        if (root / CONFIG_FILE).is_file():
            fix = f"give the folder above, {root.parent}, and choose the model with -k {root.name}"
            raise InputError("this is the folder of one model", where=where, fix=fix)
        folders = []
        for path in strict_glob(root, "*"):
            if path.is_dir() and not path.name.startswith("."):
                has_version = any(inner.is_dir() and inner.name.isdecimal() for inner in path.iterdir())
                folders += [path] if has_version or (path / CONFIG_FILE).is_file() else []
    if not folders:
        fix = "give a folder with one for each model, which has config.pbtxt or version folders 1, 2, ..."
        raise InputError("no model lies in this folder", where=where, fix=fix)
    entries = []
    for folder in folders:
        check_name(folder.name, str(folder))
        try:
            entries.append(RepositoryEntry(folder.name, folder, read_config(folder / CONFIG_FILE)))
        except ProofError as error:
            entries.append(RepositoryEntry(folder.name, folder, None, str(error)))
    return entries


def check_name(name: str, where: str) -> None:
    """Raise InputError for a name that a test, a folder or a record cannot have."""
    if not is_plain(name) or len(name) > _MAX_NAME_CHARS:
        fix = f"use at most {_MAX_NAME_CHARS} letters, digits, '.', '_' and '-', as records have this name"
        raise InputError(f"a model is called {excerpt(name)!r}", where=where, fix=fix)


def called_entries(entry: RepositoryEntry, entries: Mapping[str, RepositoryEntry]) -> list[RepositoryEntry]:
    """The `entries` of the models that a model calls, and of those that they call in turn, the last found
    first. An ensemble names them in its configuration, a Python model in texts of its code or parameters."""
    called: dict[str, RepositoryEntry] = {}
    pending = [entry]
    while pending:
        names = _names_in(pending.pop()) - called.keys() - {entry.name}
        fresh = {name: other for name, other in entries.items() if name in names}
        called |= fresh
        pending += fresh.values()
    return list(called.values())[::-1]


def _names_in(entry: RepositoryEntry) -> set[str]:
    """All texts of a model that may be names of models that it calls."""
    if entry.is_ensemble:
        assert entry.config is not None
        return {step.model_name for step in entry.config.ensemble_scheduling.step}
    if entry.backend != "python" or entry.folder is None:
        return set()
    names = set[str]()
    if entry.config is not None:
        names |= {parameter.string_value for parameter in entry.config.parameters.values()}
    with readable("the model's folder", entry.folder, _FIX):
        for path in sorted(strict_walk(entry.folder, follow_links=True)):
            if path.suffix == ".py":
                source = read_bytes(path, "the model's code", "take it out of the model's folder")
                names |= set(re.findall(r"(?<=[\"'])[\w.-]+(?=[\"'])", source.decode(errors="replace")))
    return names


def check_config(config: "ModelConfig") -> None:
    """Raise ValueError for a tensor of a type that Triton lacks, of more dimensions than an array can have,
    or of a negative length other than -1, which means any."""
    from tritonclient.grpc import model_config_pb2 as pb

    for tensor in (*config.input, *config.output):
        pb.DataType.Name(tensor.data_type)  # raises ValueError for an unknown number
        if len(tensor.dims) > MAX_DIMENSIONS or min(tensor.dims, default=ANY) < ANY:
            limits = f"at most {MAX_DIMENSIONS} dimensions, each of length {ANY} or more"
            raise ValueError(f"{excerpt(tensor.name)} has not {limits}")


def read_config(path: Path) -> "ModelConfig | None":
    """The content of a config.pbtxt; None without the file. Raises ProofError, with the line, if damaged."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2 as pb

    fix = "mend the line, which Triton refuses too"
    with readable("the configuration of a model", path, fix):
        if not (path.exists() or path.is_symlink()):
            return None
        source = read_text(path, "the configuration of a model", fix, MAX_SETTINGS_BYTES)
        # The server judges the fields of a later Triton.
        config = text_format.Parse(source, pb.ModelConfig(), allow_unknown_field=True)
        check_config(config)
    return config


def link_repository(entries: Iterable[RepositoryEntry], folder: Path) -> Path:
    """Make a repository of the entries in the empty `folder`, and return it. A model's folder has links to
    its files: Python writes bytecode beside code, and Triton's stub cannot be told not to."""
    for entry in entries:
        if entry.folder is not None:
            with readable("the model's folder", entry.folder, _FIX):
                _link_tree(entry.folder, folder / entry.name)
    return folder


def _link_tree(source: Path, target: Path, parents: tuple[Path, ...] = ()) -> None:
    """Link the files of `source` into a new folder. Raises InputError for a link back to one of `parents`."""
    resolved = source.resolve()
    if resolved in parents:
        what = "a link in the model's folder leads back to a folder around it"
        raise InputError(what, where=source, fix="remove the link")
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.name == "__pycache__":
            continue
        if path.is_dir():
            _link_tree(path, target / path.name, (*parents, resolved))
            continue
        try:
            os.link(path.resolve(), target / path.name)  # no library resolves it to another folder
        except OSError:  # as across disks
            (target / path.name).symlink_to(path.resolve())
