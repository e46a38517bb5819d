"""Reading PyTorch checkpoints never runs their code."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fixtures.errors import InputError
from fixtures.frameworks.pytorch import read_checkpoint

WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def refused(path: Path) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        read_checkpoint(path)


class Exploit:
    """An object whose pickle runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


CODE: dict[str, Callable[[Path, Path], object]] = {
    "torch.save": lambda path, proof: torch.save({"a": Exploit(proof)}, path),
    "pickle": lambda path, proof: path.write_bytes(pickle.dumps({"a": Exploit(proof)})),
}


@pytest.mark.parametrize("write", CODE.values(), ids=CODE)
def test_code_in_checkpoint_never_runs(write: Callable[[Path, Path], object], tmp_path: Path) -> None:
    write(tmp_path / "x.pt", tmp_path / "it-ran")
    refused(tmp_path / "x.pt")
    assert not (tmp_path / "it-ran").exists()


def cut_short(path: Path) -> None:
    torch.save(WEIGHTS, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


NO_CHECKPOINT: dict[str, Callable[[Path], object]] = {
    "missing": lambda _path: None,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "other bytes": lambda path: path.write_bytes(b"\x80\x04damaged"),
    "cut short": cut_short,
    "TorchScript": lambda path: torch.jit.script(torch.nn.Linear(2, 2)).save(path),
    "no weights": lambda path: torch.save({"epoch": 3}, path),
}


@pytest.mark.parametrize("put", NO_CHECKPOINT.values(), ids=NO_CHECKPOINT)
def test_non_checkpoint_is_refused(put: Callable[[Path], object], tmp_path: Path) -> None:
    put(tmp_path / "x.pt")
    refused(tmp_path / "x.pt")
