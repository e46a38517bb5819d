"""The names in TensorRT's Python bindings, of the classes that the suite uses, and a stand-in that has them.

The bindings are small packages without TensorRT's libraries; empty ones suffice to import them.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.frameworks.gpu_packages import unpack_from_pypi

VERSIONS = (
    ("tensorrt-cu12-bindings", "10.4.0"),  # the last with code for V100
    ("tensorrt-cu12-bindings", "10.16.1.11"),
    ("tensorrt-cu13-bindings", "10.16.1.11"),
    ("tensorrt-cu13-bindings", "11.4.0.106"),
)
"""Distributions on PyPI and their versions, the newest of TensorRT 10 and 11 among them."""
MODULE = "tensorrt"
CLASSES = (
    *(MODULE, "Logger", "Builder", "INetworkDefinition", "NetworkDefinitionCreationFlag", "OnnxParser"),
    *("IBuilderConfig", "BuilderFlag", "MemoryPoolType", "IOptimizationProfile"),
    *("Runtime", "ICudaEngine", "IExecutionContext", "TensorIOMode"),
)
"""The module, and its classes whose members the suite uses."""
Names = Mapping[str, Mapping[str, str]]
"""The members of the module and its classes; each with its class of TensorRT's, or the one it returns."""

LISTED: Mapping[str, Names] = json.loads(Path(__file__).with_name("tensorrt_names.json").read_text())
"""The names of each of VERSIONS, as `names_of` reads them."""
_NEWEST = " ".join(VERSIONS[-1])
_ENUMERATIONS = ("Logger", "NetworkDefinitionCreationFlag", "BuilderFlag", "MemoryPoolType", "TensorIOMode")
"""Classes whose members the suite uses without a call that returns them."""


class Player:
    """Stands in for TensorRT's module or objects: records calls; returns as they would, or `answers`."""

    used: ClassVar[set[tuple[str, str]]] = set()
    """The members used, each with its class."""

    def __init__(self, calls: dict[str, Any], kind: str, **answers: Any) -> None:
        self.calls, self.kind, self.answers = calls, kind, answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in self.answers:  # PyTorch looks through all modules
            raise AttributeError(name)
        self.used.add((self.kind, name))
        if name in self.answers:
            return self.answers[name]
        returned = LISTED[_NEWEST].get(self.kind, {}).get(name, "")

        def call(*arguments: Any) -> Any:
            self.calls.setdefault(name, []).append(arguments)
            return Player(self.calls, returned, **self.answers)

        return Player(self.calls, returned, **self.answers) if returned in _ENUMERATIONS else call

    def __call__(self, *_arguments: Any) -> "Player":
        return self


def missing_names(used: Iterable[tuple[str, str]]) -> dict[str, set[tuple[str, str]]]:
    """The members, each with its class, that a version of the bindings lacks, by version."""
    members = {member for member in used if member[1] != "__spec__"}
    lacking = {
        version: {member for member in members if member[1] not in names.get(member[0], {})}
        for version, names in LISTED.items()
    }
    return {version: names for version, names in lacking.items() if names}


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


def names_of(distribution: str, version: str, folder: Path) -> Names:
    """The names in a version of the bindings, which it downloads from PyPI into a folder."""
    unpack_from_pypi(f"{distribution}=={version}", folder)
    bindings = folder / "tensorrt_bindings" / "tensorrt.so"
    undefined = [f"void *{name}(void) {{ return 0; }}" for name in _functions_of_nvinfer(bindings)]
    (folder / "empty.c").write_text("\n".join(undefined))
    for match in set(re.findall(rb"\0(libnv\w+\.so[.\d]*)(?=\0)", bindings.read_bytes())):
        name = match.decode()
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), "empty.c"]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", _LIST]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    names: Names = json.loads(done.stdout)
    return {name: names[name] for name in CLASSES if name in names}


def _functions_of_nvinfer(library: Path) -> list[str]:
    """The C functions of TensorRT that its bindings call, by names such as `create...` and `get...`."""
    pattern = rb"\0((?:create|get|init)(?:Infer|Nv|Lib|Plugin|Builder|Logger)\w+)(?=\0)"
    return sorted({name.decode() for name in re.findall(pattern, library.read_bytes())})
