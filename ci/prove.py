"""Prove the models of a repository in its continuous integration, for action.yml and ci/gitlab.yml. `prove.py
prepare` says what to cache where, and `prove.py run` proves. Inputs come in environment variables, never in a
command line, so that nothing in them is taken for a command. Standard library only."""

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOX = "tox>=4.30,<5"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""The index with PyTorch for CPUs, without the gigabytes of CUDA's libraries."""
BAD_INPUT = 4
"""pytest's own exit status for an unusable command line; docs/ci.md has all of them."""
PATHS = {
    "PROVE_MODELS": "--models",
    "PROVE_REPOSITORY": "--repository",
    "PROVE_THRESHOLDS": "--thresholds",
    "PROVE_SAMPLES": "--samples",
    "PROVE_LABELS": "--labels",
}
"""Options with paths in the workspace, by the variable with one path per line."""
ONCE = ("-k", "-m", "--repository", "--thresholds", "--model-repos", "--results", "--junit-xml", "--summary")
"""Options that an input or the step itself gives, and that may be given once."""


def workspace(given: Mapping[str, str]) -> Path:
    """The checkout of the repository whose models are proven."""
    return Path(given.get("GITHUB_WORKSPACE") or given.get("CI_PROJECT_DIR") or Path.cwd()).absolute()


def cache(given: Mapping[str, str]) -> Path:
    """The folder that is cached between jobs."""
    return Path(given.get("PROVE_CACHE") or Path.home() / ".cache" / "tritonproof").absolute()


def lines(given: Mapping[str, str], name: str) -> list[str]:
    """The non-empty lines of a variable, or the texts of a JSON array, which GitLab makes of a list."""
    text = given.get(name, "").strip()
    texts = json.loads(text) if text.startswith("[") else text.splitlines()
    return [line for line in (str(entry).strip() for entry in texts) if line]


def flag_of(word: str) -> str:
    """The option in a word of pytest's command line, as ONCE names it: -k of `-k=fp32`, `-kfp32` or `-vk`."""
    short = re.match("-[lqsvx]*([km])", word)
    return f"-{short[1]}" if short else word.partition("=")[0].replace("--junitxml", "--junit-xml")


def options(given: Mapping[str, str]) -> list[str]:
    """The options for pytest. Their paths are absolute, because pytest runs in another folder. Raises
    ValueError if an input cannot be read, contradicts another, or none names what to prove."""
    if not any(lines(given, name) for name in ("PROVE_MODELS", "PROVE_REPOSITORY", "PROVE_ONNX")):
        raise ValueError("nothing to prove: give models, repository or onnx")
    base = workspace(given)
    arguments: list[str] = []
    for name, option in PATHS.items():
        for text in lines(given, name):
            arguments += [option, str(base / text)]
    for text in lines(given, "PROVE_ONNX"):
        model, equals, path = text.partition("=")
        if not equals:
            raise ValueError(f"onnx: give NAME=FILE, not {text}")
        arguments += ["--onnx", f"{model}={base / path}"]
    if selection := given.get("PROVE_SELECTION", "").strip():
        arguments += ["-k", selection]
    measure = given.get("PROVE_MEASURE", "").strip()
    if measure not in ("true", "false", ""):
        raise ValueError(f"measure: give true or false, not {measure}")
    if measure != "true":
        arguments += ["-m", "not speed"]
    results = base / "tritonproof-results"
    arguments += ["--model-repos", str(cache(given) / "model_repos"), "--results", str(results)]
    arguments += ["--junit-xml", str(results / "junit.xml")]
    if not given.get("GITHUB_STEP_SUMMARY"):
        arguments += ["--summary", str(results / "summary.md")]
    arguments += shlex.split(given.get("PROVE_ARGUMENTS", ""))
    flags = [flag_of(word) for word in arguments]
    if twice := [flag for flag in ONCE if flags.count(flag) > 1]:
        raise ValueError(f"{' '.join(twice)}: give it once, as an input if it is one; pytest keeps the last")
    return arguments


def prepare(given: Mapping[str, str]) -> int:
    """Tell the next steps what to cache, and under which key."""
    python = ".".join(map(str, sys.version_info[:3]))
    content = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "tox.ini"))
    packages = hashlib.sha256(content).hexdigest()[:16]
    kind = given.get("PROVE_ENVIRONMENT") or "benchmarks"
    values = {
        "folder": str(cache(given)),
        "environment": f"tritonproof-{kind}-{python}-{packages}",
        "results": str(workspace(given) / "tritonproof-results"),
    }
    with Path(given["GITHUB_OUTPUT"]).open("a") as output:
        output.writelines(f"{name}={value}\n" for name, value in values.items())
    return 0


def tox(given: Mapping[str, str]) -> Path:
    """The program tox in an environment of its own, created unless the cache has it."""
    folder = cache(given) / "environment" / "tool"
    program = folder / "bin" / "tox"
    if not program.is_file():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", TOX], check=True)
    return program


def run(given: Mapping[str, str]) -> int:
    """Prove, and return the exit status that docs/ci.md explains."""
    try:
        arguments = options(given)
    except ValueError as error:  # nothing is named, or a quotation mark or a list is never closed
        print(f"::error::{error}", flush=True)
        return BAD_INPUT
    kind, folder = given.get("PROVE_ENVIRONMENT") or "benchmarks", cache(given)
    variables = {"PIP_EXTRA_INDEX_URL": CPU_INDEX} if kind == "benchmarks" else {}
    variables |= {"PIP_CACHE_DIR": str(folder / "pip"), **given}
    command = [str(tox(given)), "run", "-c", str(ROOT)]
    command += ["--workdir", str(folder / "environment" / "tox"), "-e", kind, "--", *arguments]
    process = subprocess.Popen(command, env=variables)
    # Signals are passed on as SIGINT: tox waits until the run has cleaned up. SIGTERM would end tox alone.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: process.send_signal(signal.SIGINT))
    status = process.wait()
    if str(status) in given.get("PROVE_WARN_ON", "").replace(",", " ").split():
        print(f"::warning::exit status {status} counts as passed here, because warn-on lists it", flush=True)
        return 0
    return status


if __name__ == "__main__":
    sys.exit({"prepare": prepare, "run": run}[sys.argv[1]](dict(os.environ)))
