"""Hostile files are read, or refused in a sentence that names them."""

import contextlib
import hashlib
import json
import os
import pickle
import re
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from PIL import Image
from safetensors.torch import save_file

from tests import sample_records
from tests.helpers import as_markdown
from tests.user_models.repositories import config
from tritonproof.base.errors import ProofError
from tritonproof.frameworks import pytorch
from tritonproof.frameworks.pytorch import check_weights
from tritonproof.record import record_files
from tritonproof.record.record_files import RecordError
from tritonproof.reports.publishable import publishable
from tritonproof.reports.tables.case import case_section
from tritonproof.reports.tables.summary import machine_blocks, summary
from tritonproof.spec import Tensor
from tritonproof.user_models import model_from_config, model_repository
from tritonproof.user_models.samples import read_samples, sized_inputs

_TEXTS = (
    *("", "\0", "\x1b[31mred", "a\nb", "a\r\n::error::b", "\u202ereversed", "\ud800", "\udcff", "=1+1"),
    *("<script>", "![](http://x)", "../../etc/passwd", "/dev/zero", "x" * 100_000, "%s%n{0}"),
)
"""Texts that a terminal, a page, a file's name or a message must not take as they are."""
_NUMBERS = (
    *("1e999", "-1e999", "9" * 5000, "-1", "0", "1e-320", "1e308", "-0.0", "0.5", "2e9"),
    *(str(2**53 + 1), str(2**63), str(-(2**63) - 1)),
)
"""Numbers in JSON and TOML that no field should accept unchecked."""
_DEEP = ("[" * 3000 + "]" * 3000, "[" * 100_000, '{"a":' * 3000 + "1" + "}" * 3000)
_WORDS = ("null", "true", "[]", "{}", "[[]]", "NaN", "Infinity", "-Infinity", "[1, [2]]", '{"": 1}', *_DEEP)
TOKENS = st.sampled_from((*_NUMBERS, *_WORDS, *_TEXTS, *map(json.dumps, _TEXTS))) | st.text(max_size=5)
"""Replacements for a word, a number or a text in quotes."""


def bytes_of(content: bytes) -> st.SearchStrategy[bytes]:
    """Any bytes, or those of a file with a few removed, inserted or changed."""
    lengths = st.integers(0, 8) | st.integers(0, len(content))
    limits = st.sampled_from((b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 8, b"\xff\xff\xff\x7f"))
    edit = st.tuples(st.integers(0, len(content)), lengths, st.binary(max_size=8) | limits)

    def edited(edits: list[tuple[int, int, bytes]]) -> bytes:
        changed = content
        for start, length, new in edits:
            changed = changed[:start] + new + changed[start + length :]
        return changed

    return st.binary(max_size=100) | st.lists(edit, min_size=1, max_size=4).map(edited)


def text_of(content: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a text, or the text with a word, a number or a text in quotes replaced, in JSON a key or a
    value. Of several at once the first error would hide the others."""
    parts = re.split(r'("[^"]*"|[\w.+-]+)', content.decode())
    indices = st.sampled_from(range(1, len(parts), 2))

    def replaced(edit: tuple[int, str]) -> bytes:
        index, token = edit
        return "".join((*parts[:index], token, *parts[index + 1 :])).encode(errors="surrogatepass")

    return st.tuples(indices, TOKENS).map(replaced) | bytes_of(content)


@dataclass(frozen=True)
class Parser:
    """Reads a file that somebody else may have written."""

    file: str
    """The name of the file that is damaged."""
    write: Callable[[Path], object]
    """Writes a correct file."""
    read: Callable[[Path], object]
    """Reads the file, and uses its content as far as that needs no server."""
    damaged_by: Callable[[bytes], st.SearchStrategy[bytes]] = bytes_of
    """From the correct content to the contents to try."""
    found: tuple[bytes, ...] = ()
    """Contents that an earlier version did not refuse as it should; each run tries them."""
    may_ask: bool = False
    """Whether its library trusts a length in the file, and allocates memory before it finds the end."""


def read_record(path: Path) -> object:
    case = publishable(record_files.read(path))
    return as_markdown(summary([case])), as_markdown(case_section(case)), as_markdown(machine_blocks([case]))


def read_config(path: Path) -> object:
    """An incomplete configuration is a problem of its model, and an error where a run needs that model."""
    content = model_repository.read_config(path)
    entry = model_repository.RepositoryEntry("a", path.parent, content)
    return model_from_config.as_model(entry), entry.backend, model_from_config.why_not_here(entry, "cpu")


def read_inputs(*inputs: Tensor) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        stored = read_samples(path.parent, inputs)
        sized_inputs(inputs, stored)
        rows = stored.read(range(len(stored)))
        assert all(len(array) == len(stored) for array in rows.values())
        return rows

    return read


def read_checkpoint(path: Path) -> object:
    state = pytorch.read_checkpoint(path)
    check_weights(state, state, path, "this model")
    return state


CONFIG = config(
    more='backend: "python" instance_group [ { count: 2, kind: KIND_CPU } ]\n'
    "dynamic_batching { preferred_batch_size: [ 2, 4 ], max_queue_delay_microseconds: 100 }\n"
    'parameters { key: "A", value: { string_value: "b" } }'
)
FOUR = read_inputs(Tensor("x", "FP32", (4,)))
FIRST = {"x": [1, 2, 3, 4], "y": {"content": ["a", "b"], "shape": [2]}}
REQUESTS = {"data": [FIRST, {"x": {"b64": "AACAPwAAAEAAAEBAAACAQA=="}, "y": ["a", "b"]}]}
PICTURE = Image.fromarray(np.arange(60, dtype=np.uint8).reshape(4, 5, 3))
WEIGHTS = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2, dtype=torch.float16)}
HEAD_VALUES: tuple[object, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
HEAD = b"".join(pickle.dumps(value, protocol=2) for value in HEAD_VALUES)
"""The beginning of a file that torch.save wrote as pickles: its own number, a version, and the machine."""

PARSERS = {
    "record": Parser(
        "case.json",
        lambda path: record_files.write(
            structs.replace(sample_records.complete_but_wrong(), accuracy=sample_records.accuracy()), path
        ),
        read_record,
        text_of,
        found=(b'{"case": {"target": "cpu", "target": "cpu"}}',),  # a key twice
    ),
    "configuration": Parser("config.pbtxt", lambda path: path.write_text(CONFIG), read_config, text_of),
    "samples in npy": Parser("a.npy", lambda path: np.save(path, np.eye(3, 4, dtype=np.float32)), FOUR),
    "samples in npz": Parser("a.npz", lambda path: np.savez(path, x=np.arange(4, dtype=np.float32)), FOUR),
    "samples in requests": Parser(
        "a.json",
        lambda path: path.write_text(json.dumps(REQUESTS)),
        read_inputs(Tensor("x", "FP32", (4,)), Tensor("y", "BYTES", (-1,))),
        text_of,
        found=(b'{"data": [], "data": []}',),  # a key twice
    ),
    "samples in texts": Parser(
        "a.txt", lambda path: path.write_text("one\ntwo\n"), read_inputs(Tensor("x", "BYTES", (1,))), text_of
    ),
    "samples in pictures": Parser("a.png", PICTURE.save, read_inputs(Tensor("x", "FP32", (3, 8, 8)))),
    "checkpoint": Parser(
        "model.pt",
        lambda path: torch.save({"state_dict": WEIGHTS, "epoch": 3, "optimizer": {"lr": 0.1}}, path),
        read_checkpoint,
        found=(b"X\x00\x00\x00A",),  # no archive, so it is read as one from before 1.6: a text of 1 GiB
        may_ask=True,
    ),
    "checkpoint before 1.6": Parser(
        "model.pth.tar",
        lambda path: torch.save(WEIGHTS, path, _use_new_zipfile_serialization=False),
        read_checkpoint,
        found=(b"X\xff\xff\xff\x7f", HEAD + b"X\xff\xff\xff\x7f"),  # texts of 2 GiB, without their content
        may_ask=True,
    ),
    "safetensors": Parser("model.safetensors", lambda path: save_file(WEIGHTS, path), read_checkpoint),
}


# Neither keeps a database: a parser lists its failing examples in `found`.
ALWAYS = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(ALWAYS, max_examples=8, derandomize=True, phases=(Phase.explicit, Phase.generate))
"""For ordinary tests: the same examples in every run, some milliseconds each."""
MANY = settings(ALWAYS, max_examples=2000)
"""For the campaign: new examples in each run."""


@pytest.mark.parametrize("effort", [FEW, pytest.param(MANY, marks=pytest.mark.campaign)], ids=["few", "many"])
@pytest.mark.parametrize("name", PARSERS)
def test_hostile_file_is_read_or_refused_in_one_sentence(name: str, effort: settings, tmp_path: Path) -> None:
    parser = PARSERS[name]
    original = tmp_path / "right"
    original.mkdir()
    parser.write(original / parser.file)
    parser.read(original / parser.file)

    def check(hostile: bytes) -> None:
        # Some readers remember files by their paths.
        folder = tmp_path / hashlib.sha256(hostile).hexdigest()[:16]
        shutil.copytree(original, folder, copy_function=os.link)
        path = folder / parser.file
        path.unlink()
        path.write_bytes(hostile)
        try:
            with bounded():
                parser.read(path)
        except (ProofError, RecordError) as error:
            check_refusal(error, parser.file, may_ask=parser.may_ask)
        finally:
            shutil.rmtree(folder)

    test = given(parser.damaged_by((original / parser.file).read_bytes()))(check)
    for content in parser.found:
        test = example(content)(test)
    effort(test)()


MAX_MIB = 1024
"""Memory that reading one small file may add to the process. The largest correct file of the tests becomes a
volume of 128^3 voxels in four modalities, 32 MiB, with some copies and a loaded library."""
MAX_CPU_S = 20
"""Seconds of CPU time of this process; no example takes one, however busy the machine is."""
MAX_MESSAGE_CHARS = 5000
"""Characters, with the path of a test's file: two screens of a terminal."""
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys and nobody sees: control characters, halves of pairs, marks of direction."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """More memory raises MemoryError in the block, and more CPU time raises TimeoutError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + MAX_MIB * 2**20, hard))
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _too_long(_signal: int, _frame: FrameType | None) -> Any:
    raise TimeoutError(f"reading took more than {MAX_CPU_S} s of work")


def check_refusal(error: BaseException, names: str, *, may_ask: bool = False) -> None:
    """Assert that a refusal is readable: it names the fault, is short, and nothing in it acts on a terminal.
    Only with `may_ask` may it come from a failed allocation."""
    text = str(error)
    beginning = repr(text[:500])
    sentence, *rest = text.splitlines()
    assert sentence.strip(), "it says nothing"
    assert names in text, beginning
    assert len(text) <= MAX_MESSAGE_CHARS, beginning
    assert not _ACTING.search(text), beginning
    assert all(line.startswith(("  where: ", "  fix:  ")) for line in rest), beginning
    assert may_ask or not _ran_out_of_memory(error), f"the memory was asked for: {beginning}"


def _ran_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error) or "bad_alloc" in str(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
