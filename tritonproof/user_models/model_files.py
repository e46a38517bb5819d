"""Models from a user's files, for the length of a run: `--models FILE_OR_FOLDER`. A file lists its models in
MODELS, like those in `tritonproof/models/`, and may import modules beside it, by name or relatively."""

import contextlib
import dataclasses
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tritonproof.base import commands
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.models import MODELS_VARIABLE, joined, listed_models
from tritonproof.safe_io.files import import_error, read_bytes, readable
from tritonproof.spec import NetworkModel

OPTION = "--models"
_ASSIGNED = re.compile(rf"^{MODELS_VARIABLE}\s*[:=]".encode(), re.MULTILINE)


def importable_files(source: Path) -> list[Path]:
    """The Python files that may change the models of `source`: itself, those beside it, and in packages
    below. A folder without any, which may hold data, is a namespace package only if their code names it."""
    pending, unnamed, files, words = [source.parent], list[Path](), list[Path](), set[str]()
    while pending:
        folder = pending.pop()
        with readable("the folder", f"{OPTION} {source}", "make it readable"):
            importable = [path for path in sorted(folder.iterdir()) if path.stem.isidentifier()]
            modules = [path for path in importable if path.suffix == ".py" and path.is_file()]
            for module in modules:
                words.update(re.findall(r"\w+", module.read_text("utf-8", "replace")))
            if modules or folder.name in words:
                pending += (path for path in importable if path.is_dir())
            else:
                unnamed.append(folder)
        files += modules
        if not pending:  # a module that was read later may name a folder that came before
            pending = [folder for folder in unnamed if folder.name in words]
            unnamed = [folder for folder in unnamed if folder.name not in words]
    return files


@contextlib.contextmanager
def imported_models(
    paths: Sequence[Path], known: Sequence[NetworkModel]
) -> Iterator[tuple[NetworkModel, ...]]:
    """The models `known` and those of files and folders, each once and in order. Modules beside them can be
    imported in the block. Raises InputError if a file cannot run or lists none, or if a name is taken."""
    files: dict[Path, str] = {}
    for named in paths:
        for path in _files_in(named):
            files.setdefault(path, f"{OPTION} {named}" + ("" if path == named.resolve() else f": {path}"))
    models = tuple(known)
    with contextlib.ExitStack() as stack:
        for folder in dict.fromkeys(path.parent for path in files):
            stack.enter_context(_on_path(folder))
        for path, where in files.items():
            models = joined(models, stack.enter_context(_models_of(path, where)), where)
        yield models


def _files_in(named: Path) -> list[Path]:
    """The files of models that a path names: a file, a package, or all in a folder that assign MODELS."""
    path, where = named.resolve(), f"{OPTION} {excerpt(str(named))}"
    new_file = commands.tool_command("new", "NAME")
    if path.is_dir():
        with readable("the folder", where, "name a file of models"):
            candidates = [path] if (path / "__init__.py").is_file() else sorted(path.iterdir())
            files = [candidate for candidate in candidates if _lists_models(candidate)]
        if not files:
            fix = f"name the file, or make one there: {new_file}"
            raise InputError(f"no file in the folder assigns {MODELS_VARIABLE}", where=where, fix=fix)
        return files
    if not path.is_file() or path.suffix != ".py":
        fix = f"give a file of models, as {new_file} writes one, or the folder that holds it"
        raise InputError("not a file of Python", where=where, fix=fix)
    return [path]


def _lists_models(path: Path) -> bool:
    """Whether a line of a file, or of the `__init__.py` of a package, begins with an assignment to MODELS."""
    file = path / "__init__.py" if path.is_dir() else path
    if file.suffix != ".py" or not file.is_file():
        return False
    source = read_bytes(file, "a file of models", "make it readable, or take it out of the folder")
    return _ASSIGNED.search(source) is not None


@contextlib.contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    """Make a folder's modules importable within the block, after all others."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            top = folder / name.partition(".")[0]
            if getattr(module, "__file__", None) in (f"{top}.py", f"{top}/__init__.py"):
                del sys.modules[name]  # imported from the folder by its plain name
        importlib.invalidate_caches()


@contextlib.contextmanager
def _models_of(path: Path, where: str) -> Iterator[tuple[NetworkModel, ...]]:
    """The models in MODELS of a file or package, whose modules Python forgets after the block."""
    source = path / "__init__.py" if path.is_dir() else path
    name = f"models_in_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
    while name in sys.modules:
        name += "_"
    # A package finds its modules in its own folder; a file's neighbours likewise become its modules.
    spec = importlib.util.spec_from_file_location(
        name, source, submodule_search_locations=[str(source.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    own = importable_files(source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        try:
            spec.loader.exec_module(module)
            models = listed_models(module, where)
        except (InputError, KeyboardInterrupt):
            raise
        except BaseException as error:  # such as what pytest.importorskip raises, and sys.exit
            raise import_error(error, source, own, f"{where}, ") from error
        yield tuple(dataclasses.replace(model, defined_in=source) for model in models)
    finally:
        for loaded in [loaded for loaded in sys.modules if loaded == name or loaded.startswith(f"{name}.")]:
            del sys.modules[loaded]
