"""Reading a PyTorch checkpoint, whatever is in it: nothing of it runs."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fixtures.errors import InputError
from fixtures.pytorch import read_checkpoint

WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        read_checkpoint(path)
    assert str(path) in str(raised.value)
    assert "cure:" in str(raised.value)
    return str(raised.value)


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
