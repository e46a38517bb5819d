"""Builds: a case's artifact and configuration, built once and reused by content.

model_repos/<target>/<case>/config.pbtxt, build.json, 1/<artifact>, 1/model.py, 1/runtime.py, 1/__pycache__
model_repos/<target>/.in-use/run-<...>/<case>/..., a locked snapshot for each use, whatever others do to it

A build.json has a digest of every file and folder beside it, which detects damage and changes."""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from tritonproof import data, formats, frameworks, models, user_models
from tritonproof.base.disk import file_digest, files_in, has_content, strict_walk, write_atomically
from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.paths import CONFIG_FILE, PACKAGE
from tritonproof.build import runtime_files
from tritonproof.build.configuration import VERSION_FOLDER, config_text, model_config
from tritonproof.host import locks, machine, scratch
from tritonproof.record.setup import BuildFacts, Deployment
from tritonproof.safe_io.files import data_digest
from tritonproof.spec import Case, ConversionJob, Device, FrameworkModel, OnProgress, Samples, Split
from tritonproof.user_models.model_files import importable_files

FACTS = "build.json"
"""The file with everything that decided a build, and the build's time and size."""
_DIGEST = "folder_sha256"
"""The key in build.json for the digest of the other facts and of the folder's content."""
_FIX = "give another with --model-repos DIR"


def unchanged_facts(folder: Path) -> dict[str, Any] | None:
    """The facts in a build's build.json if these and the folder are unchanged; else None."""
    try:
        stored = stored_facts(folder)
        facts = {name: value for name, value in stored.items() if name != _DIGEST}
        return facts if stored[_DIGEST] == _folder_digest(folder, facts) else None
    except (OSError, ValueError, LookupError):
        return None


def stored_facts(folder: Path) -> dict[str, Any]:
    """The content of a build.json, valid or not. Raises OSError if it is missing, ValueError if damaged."""
    return msgspec.json.decode((folder / FACTS).read_bytes(), type=dict[str, Any])


def _folder_digest(folder: Path, facts: Mapping[str, Any]) -> str:
    """The digest of the facts and of all files but build.json and the configuration."""
    lines = [json.dumps(facts, sort_keys=True)]
    for path in sorted(strict_walk(folder)):
        name, mode = path.relative_to(folder).as_posix(), path.lstat().st_mode
        if stat.S_ISDIR(mode):
            lines.append(f"folder {name!r}")
        elif not stat.S_ISREG(mode):
            raise ValueError(f"{path} is neither a file nor a folder")
        elif name not in (FACTS, CONFIG_FILE):
            lines.append(f"{file_digest(path)} {name!r}")
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


UNFINISHED = ".unfinished-"
"""The prefix of folders for unfinished builds, or for a commit's unfinished files."""


UNKNOWN_FACTS = BuildFacts("", "", 0.0, 0.0)


@dataclass(frozen=True)
class CaseBuild:
    """A case's model as files to serve: a conversion below --model-repos, a baseline's, or a repository's."""

    case: Case
    folder: Path
    """The folder of its configuration; a conversion's has build.json and the folder of its version too."""
    facts: BuildFacts = UNKNOWN_FACTS
    reused: bool = False
    """Whether an earlier call has converted the case; False if none is converted."""
    taken_from: Path | None = None
    """The original folder, if this is a copy in use: see `private_copy`."""

    @property
    def artifact(self) -> Path:
        """The converted model: a file, or for some formats a folder."""
        return self.folder / VERSION_FOLDER / self.case.format.artifact


def build_inputs(
    case: Case, weights_digest: str, deployment: Deployment, datasets: Mapping[str, Path], device: Device
) -> dict[str, Any]:
    """All that decides an artifact, whose hash names the build: digests of the sources, the weights and the
    calibration's data, versions of packages, hardware, largest batch and TF32. Raises InputError."""
    model = case.network_model
    source = model.defined_in
    packages = (Path(package.__path__[0]) for package in (formats, frameworks))
    shared = (path for package in packages for path in package.glob("*.py"))
    sources = {*shared, *_runtime_files(case).values()}
    is_own_model = source.is_relative_to(PACKAGE)
    if is_own_model:  # the source is one file, or the `__init__.py` of a package
        sources.update(source.parent.glob("*.py") if source.name == "__init__.py" else [source])
    is_calibrated = case.precision == "int8"
    if is_calibrated:
        # Any file of these packages may make the samples for calibration.
        for package in (models, data, user_models):
            sources.update(Path(package.__path__[0]).rglob("*.py"))
    digests = {os.path.relpath(path, PACKAGE.parent): file_digest(path) for path in sorted(sources)}
    if not is_own_model:
        beside = [path for path in source.parent.iterdir() if is_calibrated and path.is_file()]
        own_files = sorted({*importable_files(source), *beside})
        digests.update((f"own/{path.relative_to(source.parent)}", data_digest(path)) for path in own_files)
    if is_calibrated and (dataset := datasets.get(case.model.name)):
        digests["--dataset"] = data_digest(dataset)
    versions = {name: machine.version_of(name) for name in (*case.format.packages, *model.packages)}
    return {
        "case": str(case),
        "max_batch_size": deployment.max_batch_size,
        **({} if deployment.tf32 is None else {"tf32": deployment.tf32}),
        "sources": digests,
        "weights_digest": weights_digest,
        "versions": {name: version for name, version in versions.items() if version is not None},
        "hardware": machine.processor(device),
    }


def build(
    case: Case,
    framework_model: FrameworkModel,
    deployment: Deployment,
    root: Path,
    *,
    native: bool,
    samples: Callable[[Split], Samples],
    on_progress: OnProgress = lambda _text: None,
    device: Device | None = None,
    datasets: Mapping[str, Path] = MappingProxyType({}),
) -> CaseBuild:
    """The case's model below `root`, converted now if it is missing, on `device`, by default its target's.
    `native` selects the configuration of the format's own backend instead of the suite's runtime; `samples`
    opens a split if the conversion needs it, from the user's `datasets` by model where given; `on_progress`
    gets each activity. One process at a time builds a case; others wait, and then find the build. An
    unfinished build stays hidden until the next removes it. Raises ProofError if the conversion fails."""
    device = device or case.target.device
    inputs = build_inputs(case, framework_model.digest, deployment, datasets, device)
    folder = root / case.target.name / str(case)
    with scratch.report_full_disk(folder, _FIX):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_build(folder, on_progress):
            built = _reused(case, folder, inputs)
            if built is None:
                job = ConversionJob(
                    model=case.network_model,
                    network=framework_model.network,
                    precision=case.precision,
                    accelerator=case.accelerator,
                    device=device,
                    max_batch_size=deployment.max_batch_size,
                    samples=samples,
                    on_progress=on_progress,
                    tf32=deployment.tf32,
                )
                built = _convert(case, job, folder, inputs, framework_model.weights_source)
            text = config_text(model_config(case, deployment, native=native)).encode()
            if not has_content(folder / CONFIG_FILE, text):
                remove_path(folder / CONFIG_FILE)
                write_atomically(folder / CONFIG_FILE, text)
    return built


def hold_build(folder: Path, on_progress: OnProgress) -> contextlib.AbstractContextManager[None]:
    """Lock a build's folder while a run writes or copies it; `on_progress` receives who else has the lock."""
    return locks.hold_path(folder, on_wait=lambda holder: on_progress(f"wait for a conversion by {holder}"))


def reusable_build(
    case: Case, weights_digest: str | None, deployment: Deployment, root: Path, datasets: Mapping[str, Path]
) -> CaseBuild | None:
    """The case's model below `root` if it is up to date, with weights of this digest or, for None, any; else
    None."""
    folder = root / case.target.name / str(case)
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError, InputError):  # converting names it
        digest = weights_digest or stored_facts(folder)["content"]["weights_digest"]
        return _reused(case, folder, build_inputs(case, digest, deployment, datasets, case.target.device))
    return None


def _inputs_digest(inputs: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _reused(case: Case, folder: Path, inputs: dict[str, Any]) -> CaseBuild | None:
    stored = unchanged_facts(folder)
    if stored is None or stored["digest"] != _inputs_digest(inputs):
        return None
    facts = BuildFacts(**{name: stored[name] for name in BuildFacts.__struct_fields__})
    return CaseBuild(case, folder, facts, reused=True)


def _runtime_files(case: Case) -> dict[str, Path]:
    folder = runtime_files.RUNTIMES
    return {"model.py": folder / "model.py", "runtime.py": folder / case.format.runtime.file}


def _convert(
    case: Case, job: ConversionJob, folder: Path, inputs: dict[str, Any], weights_source: str
) -> CaseBuild:
    """Convert the case beside `folder`, and move the finished build there."""
    scratch.remove_unlocked(folder.parent, UNFINISHED)
    with scratch.locked_folder(folder.parent, f"{UNFINISHED}{case}-") as own_folder:
        new_folder = own_folder / folder.name
        version = new_folder / VERSION_FOLDER
        version.mkdir(parents=True)
        artifact = version / case.format.artifact
        started = time.monotonic()
        case.format.convert(job, artifact)
        build_time_s = round(time.monotonic() - started, 3)
        if not artifact.exists():
            raise ProofError(f"`convert` of {case.format.name} wrote no {artifact.name}", where=case)
        size_bytes = sum(file.stat().st_size for file in files_in(artifact))
        size_mib = round(size_bytes / 2**20, 3)
        for name, source in _runtime_files(case).items():
            shutil.copyfile(source, version / name)
        # A file in the place of the bytecode's folder keeps Python from writing bytecode beside a model, and
        # from running any that somebody put there. PYTHONDONTWRITEBYTECODE does not reach Triton's stub.
        (version / "__pycache__").touch()
        facts = BuildFacts(_inputs_digest(inputs), weights_source, build_time_s, size_mib)
        stored: dict[str, Any] = {**structs.asdict(facts), "content": inputs}
        stored[_DIGEST] = _folder_digest(new_folder, stored)
        (new_folder / FACTS).write_text(json.dumps(stored, indent=2) + "\n")
        remove_path(folder)
        new_folder.rename(folder)
    return CaseBuild(case, folder, facts)


def remove_path(folder: Path) -> None:
    """Remove whatever is in the place of a folder; a link's target stays."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)


IN_USE = ".in-use"
"""The folder of builds in use, beside the originals: on the same disk large files need no copy."""
_USE_PREFIX = "run-"


@contextlib.contextmanager
def private_copy(built: CaseBuild, *, on_progress: OnProgress = lambda _text: None) -> Iterator[CaseBuild]:
    """The build, alone in its own model repository, until the end of the block. Other runs may rebuild the
    case meanwhile, with other weights, and nobody waits. `on_progress` gets what this waits for before the
    block. Raises ProofError if the build is gone, or the disk is full."""
    with snapshot(built.folder, on_progress=on_progress) as copy:
        digest: object = None
        with contextlib.suppress(OSError, ValueError):
            digest = stored_facts(copy).get("digest")
        if digest != built.facts.digest:
            what = "another run has removed the build, or made it anew of something else"
            fix = "run again; give runs with different weights folders of their own (--model-repos DIR)"
            raise ProofError(what, where=built.folder, fix=fix)
        yield replace(built, folder=copy, taken_from=built.folder)


@contextlib.contextmanager
def snapshot(folder: Path, *, on_progress: OnProgress = lambda _text: None) -> Iterator[Path]:
    """A copy of a build's files, in a new folder of the same name. Raises ProofError if the disk is full."""
    with contextlib.ExitStack() as stack:
        with scratch.report_full_disk(folder, _FIX):
            folder_of_uses = folder.parent / IN_USE
            folder_of_uses.mkdir(exist_ok=True)
            scratch.remove_unlocked(folder_of_uses, _USE_PREFIX)
            own_folder = stack.enter_context(scratch.locked_folder(folder_of_uses, _USE_PREFIX))
            # A container's user may read only what everybody may.
            own_folder.chmod(folder.parent.stat().st_mode & 0o777)
            copy = own_folder / folder.name
            with hold_build(folder, on_progress), contextlib.suppress(FileNotFoundError):
                shutil.copytree(folder, copy, copy_function=_link_or_copy)
        yield copy


def _link_or_copy(source: str, target: str) -> None:
    # Only artifacts are this large, and are linked. Smaller files, such as code, may be edited in place.
    if Path(source).stat().st_size >= 1 << 20:
        with contextlib.suppress(OSError):  # a disk without links
            os.link(source, target)
            return
    shutil.copy2(source, target)


def remove_unfinished(root: Path) -> list[Path]:
    """Remove and return the folders below `root` that killed runs left, unfinished or in use."""
    removed = []
    for folder in sorted(root.glob("*/")):
        removed += scratch.remove_unlocked(folder, UNFINISHED)
        removed += scratch.remove_unlocked(folder / IN_USE, _USE_PREFIX)
    return removed
