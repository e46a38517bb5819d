"""The names in TensorRT's Python bindings, and those that the suite's files use of them.

The bindings are packages of their own on PyPI, a megabyte each, without TensorRT's libraries. Empty libraries of the
same names are enough to import them, on a machine without a GPU. `python -m tests.formats.tensorrt_bindings` takes the
names of VERSIONS from there and writes them to NAMES.
"""

import ast
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "fixtures" / "formats" / "trt.py", ROOT / "model_repos" / "runtimes" / "trt.py")
"""The files that use TensorRT."""
NAMES = Path(__file__).with_name("tensorrt_names.json")
VERSIONS = (
    ("tensorrt-cu12-bindings", "10.4.0"),  # the last with code for V100
    ("tensorrt-cu12-bindings", "10.16.1.11"),
    ("tensorrt-cu13-bindings", "10.16.1.11"),
    ("tensorrt-cu13-bindings", "11.4.0.106"),
)
"""Distributions on PyPI and their versions, the newest of TensorRT 10 and 11 among them."""
MODULE = "tensorrt"


class OutOfReachError(Exception):
    """The bindings cannot be downloaded here."""


Names = Mapping[str, Mapping[str, str]]
"""The members of the module and of its classes, by class; with each the class that it is, or that calling it gives, or an
empty text where that is none of TensorRT's."""

_LIST = r"""
import json, re, sys
import tensorrt_bindings as module
classes = {name: one for name, one in vars(module).items() if isinstance(one, type) and not name.startswith("_")}
def given(member):
    if isinstance(member, type) and member.__name__ in classes:
        return member.__name__
    text = re.search(r"-> (?:[\w.]*\.)?(\w+)", str(getattr(member, "__doc__", "")))
    return text[1] if text and text[1] in classes else ""
listed = {"tensorrt": {name: given(one) for name, one in vars(module).items() if not name.startswith("_")}}
for name, one in classes.items():
    listed[name] = {member: given(getattr(one, member, None)) for member in dir(one) if not member.startswith("_")}
json.dump(listed, sys.stdout)
"""
_OFTEN = re.compile(r"Layer$|^I?Plugin|^I[A-Z]\w*Plugin|V\d\w*$")
"""Classes that are left out of the file: one for each of hundreds of layers and plugins."""


def why_not() -> str | None:
    """Why names cannot be taken from PyPI here, or None."""
    return (
        None
        if shutil.which("gcc")
        else "needs gcc, for the empty libraries that the bindings are imported with"
    )


def download(distribution: str, version: str, folder: Path) -> None:
    """Download a version of a distribution from PyPI and unpack it into a folder."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        command = [*pip, "--dest", wheels, f"{distribution}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise OutOfReachError((done.stderr.strip().splitlines() or ["pip says nothing"])[-1])
        (wheel,) = Path(wheels).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)


def names_of(distribution: str, version: str, folder: Path) -> Names:
    """The names in a version of the bindings on PyPI, which is downloaded into a folder."""
    download(distribution, version, folder)
    bindings = folder / "tensorrt_bindings" / "tensorrt.so"
    undefined = [f"void *{name}(void) {{ return 0; }}" for name in _functions_of_nvinfer(bindings)]
    (folder / "empty.c").write_text("\n".join(undefined))
    for found in set(re.findall(rb"\0(libnv\w+\.so[.\d]*)(?=\0)", bindings.read_bytes())):
        name = found.decode()
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), "empty.c"]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", _LIST]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    every: Names = json.loads(done.stdout)
    return {name: members for name, members in every.items() if not _OFTEN.search(name)}


def _functions_of_nvinfer(library: Path) -> list[str]:
    """The C functions of TensorRT that its bindings call: named in the file, as `create...` and `get...` are."""
    return sorted(
        {
            one.decode()
            for one in re.findall(
                rb"\0((?:create|get|init)(?:Infer|Nv|Lib|Plugin|Builder|Logger)\w+)(?=\0)",
                library.read_bytes(),
            )
        }
    )


def used_names(source: str, names: Names) -> set[tuple[str, str]]:
    """What a file uses of TensorRT, as pairs of a class (or the module) and its member, the unknown ones too.

    Followed are variables, and parameters and results of the file's own functions.
    """
    return _Reader(ast.parse(source), names).used


class _Reader:
    """What is known of a file's variables, until a look at it tells nothing new."""

    def __init__(self, tree: ast.Module, names: Names) -> None:
        self.names = names
        self.used: set[tuple[str, str]] = set()
        self.types: dict[str, str] = {}
        self.functions = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.types |= {one.asname or one.name: MODULE for one in node.names if one.name == MODULE}
        for _ in itertools.repeat(None):
            before = (len(self.used), len(self.types))
            for node in ast.walk(tree):
                self.look_at(node)
            if (len(self.used), len(self.types)) == before:
                break

    def look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.bind(target, node.value)
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions
        ):
            for parameter, value in zip(self.functions[node.func.id].args.args, node.args, strict=False):
                self.types |= {parameter.arg: kind} if (kind := self.kind_of(value)) else {}
        elif isinstance(node, ast.Attribute):
            self.kind_of(node)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.types |= {target.id: kind} if (kind := self.kind_of(value)) else {}
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=False):
                self.bind(one, other)

    def kind_of(self, node: ast.expr) -> str:
        """The class of an expression's value, or that calling it gives; empty for what is none of TensorRT's."""
        if isinstance(node, ast.Name):
            return self.types.get(node.id, "")
        if isinstance(node, ast.Attribute):
            owner = self.kind_of(node.value)
            if not owner:
                return ""
            self.used.add((owner, node.attr))
            return self.names.get(owner, {}).get(node.attr, "")
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in self.functions:
                returns = [
                    one for one in ast.walk(self.functions[node.func.id]) if isinstance(one, ast.Return)
                ]
                return next((kind for one in returns if one.value and (kind := self.kind_of(one.value))), "")
            return self.kind_of(node.func)
        return ""


def main() -> None:
    """Take the names of every version from PyPI, and write the file."""
    listed: dict[str, Any] = {}
    for distribution, version in VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            listed[f"{distribution} {version}"] = names_of(distribution, version, Path(folder))
    NAMES.write_text(json.dumps(listed, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
