"""Reading a PyTorch checkpoint, whatever is in it: nothing runs, nothing of torch changes, what is small stays so."""

import argparse
import collections
import io
import pathlib
import pickle
import struct
import sys
import tarfile
import tracemalloc
import types
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fixtures.errors import InputError
from fixtures.frameworks.pytorch import read_checkpoint

WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        read_checkpoint(path)
    assert str(path) in str(raised.value)
    assert "cure:" in str(raised.value)
    return str(raised.value)


# --- no checkpoint at all ----------------------------------------------------------------------------------


def test_a_missing_file_is_told_from_a_folder_and_from_a_file_without_weights(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "x.pt")
    assert "there is no such file" in refused(tmp_path / "none.pt")
    assert "it is a folder, not a file" in refused(tmp_path)
    assert "no state dictionary" in refused(tmp_path / "x.pt")


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all", b"\x80\x04damaged", None])
def test_a_file_that_is_no_checkpoint_or_is_cut_short_is_refused(
    content: bytes | None, tmp_path: Path
) -> None:
    torch.save(WEIGHTS, tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert "truncated or not a PyTorch file" in refused(tmp_path / "x.pt")


class Exploit:
    """Pickled, it runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


@pytest.mark.parametrize("by", ["torch", "pickle"])
def test_code_in_a_checkpoint_is_never_run(by: str, tmp_path: Path) -> None:
    path, ran = tmp_path / "x.pt", tmp_path / "it-ran"
    if by == "torch":
        torch.save({"a": Exploit(ran)}, path)
    else:
        path.write_bytes(pickle.dumps({"a": Exploit(ran)}))
    assert "possibly code" in refused(path)
    assert not ran.exists()


# --- TorchScript -------------------------------------------------------------------------------------------


class Writer(torch.nn.Module):
    """TorchScript runs its __setstate__ when it is loaded, which makes the file that it names."""

    def __init__(self, proof: str) -> None:
        super().__init__()
        self.proof = proof
        self.made = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.proof, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.proof = state[0]
        self.training = state[1]
        self.made = torch.from_file(state[0], shared=True, size=4)


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    """The file that is there once the script has run."""
    return tmp_path / "it-ran"


@pytest.fixture
def script(proof: Path) -> bytes:
    """A TorchScript archive that makes the file when it is loaded."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Writer(str(proof))), buffer)
    proof.unlink(missing_ok=True)
    torch.jit.load(io.BytesIO(buffer.getvalue()))
    assert proof.exists(), "the archive of this test does nothing"
    proof.unlink()
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["model.pt", "model.pth.tar", "pytorch_model.bin", "fold2.ckpt"])
def test_a_torchscript_archive_is_refused_and_nothing_of_it_runs(
    name: str, script: bytes, proof: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(script)
    text = refused(tmp_path / name)
    assert "is a TorchScript archive" in text
    assert "was not opened" in text
    assert "save its state dictionary alone" in text
    assert not proof.exists()


def in_another_folder(script: bytes, path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(script)) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            new.writestr("a/" + entry.filename.partition("/")[2], old.read(entry))


def beside_weights(script: bytes, path: Path) -> None:
    torch.save(WEIGHTS, path)
    with zipfile.ZipFile(io.BytesIO(script)) as old, zipfile.ZipFile(path, "a") as new:
        folder = new.namelist()[0].partition("/")[0]
        for entry in old.infolist():
            inner = entry.filename.partition("/")[2]
            if inner.startswith(("constants.pkl", "code/")):
                new.writestr(f"{folder}/{inner}", old.read(entry))


def behind_a_symlink(script: bytes, path: Path) -> None:
    path.with_name("elsewhere").write_bytes(script)
    path.symlink_to("elsewhere")


def before_other_bytes(script: bytes, path: Path) -> None:
    path.write_bytes(script + bytes(64))


def twice_in_a_row(script: bytes, path: Path) -> None:
    path.write_bytes(script + script)


@pytest.mark.parametrize(
    "disguise",
    [in_another_folder, beside_weights, behind_a_symlink, before_other_bytes, twice_in_a_row],
    ids=lambda disguise: disguise.__name__,
)
def test_a_torchscript_archive_in_disguise_is_refused_and_nothing_of_it_runs(
    disguise: Callable[[bytes, Path], None], script: bytes, proof: Path, tmp_path: Path
) -> None:
    disguise(script, tmp_path / "x.pt")
    assert "is a TorchScript archive" in refused(tmp_path / "x.pt")
    assert not proof.exists()


def test_a_file_that_becomes_torchscript_while_it_is_read_never_runs(
    script: bytes, proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.pt"
    torch.save(WEIGHTS, path)
    asked = torch.serialization._is_torchscript_zip

    def asked_and_overwritten(file: object) -> bool:
        answer: bool = asked(file)
        path.write_bytes(script)
        return answer

    monkeypatch.setattr(torch.serialization, "_is_torchscript_zip", asked_and_overwritten)
    refused(path)
    assert path.read_bytes() == script
    assert not proof.exists()


def test_the_tar_files_of_early_pytorch_are_refused_and_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Unpacked, a pipe in the place of a member would keep its reader waiting for ever.
    monkeypatch.setattr(tarfile.TarFile, "extract", lambda *_, **__: pytest.fail("it was unpacked"))
    with tarfile.open(tmp_path / "x.pt", "w") as tar:
        tar.addfile(tarfile.TarInfo("storages"))
    assert "not a PyTorch file" in refused(tmp_path / "x.pt")


# --- pickles -----------------------------------------------------------------------------------------------


def zipped(pickled: bytes, path: Path) -> Path:
    """A zip as torch.save writes it, by the pickle in it."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/version", b"3\n")
    return path


REBUILD, STORAGE = b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch.storage\nUntypedStorage\n"
STATE = b"}X\x06\x00\x00\x00markedK\x07s"
"""{"marked": 7}"""


@pytest.mark.parametrize("state", [STATE, b"N" + STATE + b"\x86"], ids=["attributes", "slots"])
@pytest.mark.parametrize("target", [REBUILD, STORAGE], ids=["a function", "a class"])
def test_a_pickle_changes_nothing_of_torch(target: bytes, state: bytes, tmp_path: Path) -> None:
    text = refused(zipped(b"\x80\x02" + target + state + b"b.", tmp_path / "x.pt"))
    assert not hasattr(torch._utils._rebuild_tensor_v2, "marked")
    assert not hasattr(torch.UntypedStorage, "marked")
    assert "more than tensors" in text


BOMBS = {
    "a bytearray by its length": b"\x80\x02c__builtin__\nbytearray\nJ\x00\x00\x00\x08\x85R.",
    "a bytearray's own opcode": b"\x80\x05\x96" + struct.pack("<Q", 1 << 27) + b".",
    "a distant place in the memo": b"\x80\x02Nr" + struct.pack("<I", 1 << 23) + b".",
    "a scalar of many bytes": (
        b"\x80\x02cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\x0a\x00\x00\x00V134217728\x85R\x85R."
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_pickle_takes_little_memory(bomb: str, tmp_path: Path) -> None:
    path = zipped(BOMBS[bomb], tmp_path / "x.pt")
    tracemalloc.start()
    try:
        refused(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Each asks for 128 MiB; what is read of so small a file takes well under one.
    assert peak < 16 << 20


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_what_training_leaves_beside_the_weights_is_read_past(
    protocol: int, legacy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lightning = types.ModuleType("pytorch_lightning.utilities.parsing")
    lightning.AttributeDict = type(  # type: ignore[attr-defined]
        "AttributeDict", (dict,), {"__module__": "pytorch_lightning.utilities.parsing"}
    )
    monkeypatch.setitem(sys.modules, "pytorch_lightning", types.ModuleType("pytorch_lightning"))
    monkeypatch.setitem(sys.modules, "pytorch_lightning.utilities", types.ModuleType("utilities"))
    monkeypatch.setitem(sys.modules, lightning.__name__, lightning)
    network = torch.nn.Linear(3, 2)
    checkpoint = {
        "state_dict": torch.nn.ModuleDict({"module": network}).state_dict(),  # its names and _metadata
        "hyper_parameters": lightning.AttributeDict(args=argparse.Namespace(lr=0.1, out=pathlib.Path("a/b"))),
        "hparams_type": lightning.AttributeDict,
        "callbacks": {lightning.AttributeDict: {"best": np.float64(0.5), np.int64(3): [np.float32(1)]}},
        "lr_schedulers": [{"milestones": collections.Counter([10, 20, 20])}],
        "gpus": {0, 1},
        "frozen": frozenset({np.int64(1), "a"}),
        "bytes": [b"", b"\xff\x00", bytearray(b"abc")],
        "others": [complex(1, 2), slice(1, 2), torch.float16, torch.Size([2]), torch.device("cpu")],
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    path = tmp_path / "x.ckpt"
    torch.save(checkpoint, path, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
    read = read_checkpoint(path)
    assert list(read) == ["weight", "bias"]
    for name, value in network.state_dict().items():
        torch.testing.assert_close(read[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 1.6"])
def test_every_type_and_view_of_a_tensor_is_read(legacy: bool, tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "transposed": base.t(),
        "a part": base[1:3, ::2],
        "parameter": torch.nn.Parameter(base),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
        **{str(dtype): base.to(dtype) for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.bool)},
    }
    torch.save(tensors, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    read = read_checkpoint(tmp_path / "x.pt")
    assert list(read) == list(tensors)
    for name, value in tensors.items():
        assert torch.equal(read[name], value), name
