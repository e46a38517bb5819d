"""A small file keeps a model's answers, with which later runs compare theirs."""

import contextlib
import hashlib
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from tritonproof.accuracy.answer_comparison import AnswerFinding, ExpectedAnswers
from tritonproof.accuracy.expected import expect_by_signature
from tritonproof.accuracy.limits import CaseLimits
from tritonproof.base import disk
from tritonproof.base.errors import InputError, NotAvailableError
from tritonproof.client.requests import ServedModel
from tritonproof.gates.context import GateContext, wrong_text
from tritonproof.host import locks
from tritonproof.record.correctness import GateResult
from tritonproof.safe_io.arrays import values_of
from tritonproof.safe_io.files import read_bytes, readable
from tritonproof.serve.messages import content_size_bytes, raw_content
from tritonproof.spec import Arrays

_MAX_BYTES = 16 << 20
"""The most bytes of answers in a file, before compression; samples beyond are left out."""
_MAX_FILE_BYTES = 4 * _MAX_BYTES
"""The most bytes of a file that is read, compressed or not."""


class RecordedAnswers(msgspec.Struct, frozen=True):
    """What a model answered to some samples, each sent alone."""

    model: str
    case_id: str
    """The case that answered."""
    triton: str
    """The version of the Triton that served it."""
    run_id: str
    limits: CaseLimits
    """The limits of other answers to these samples; an unknown precision is inferred from the answers."""
    digests: Mapping[str, str]
    """A digest of each sample's inputs, by the sample's id."""
    rows: Mapping[str, Mapping[str, np.ndarray]]
    """The outputs of each sample by name, without the batch axis, by the sample's id."""
    version: Literal[9] = 9


def answers_path(folder: Path, model: str) -> Path:
    return folder / f"{model}.answers"


def answers_to_record(context: GateContext, case_id: str, run_id: str) -> RecordedAnswers:
    """Choose the answers to record: as many as fit into a file. Raises NotAvailableError if none fits."""
    served, single_rows = context.served, context.single_answers.by_sample
    recorded = dict[int, Arrays]()
    left_bytes = _MAX_BYTES
    for sample in sorted(single_rows):
        left_bytes -= content_size_bytes(single_rows[sample])
        if left_bytes < 0:
            break
        recorded[sample] = single_rows[sample]
    if not recorded:
        what = f"an answer of {served.model.name} takes more than the {_MAX_BYTES >> 20} MiB of a file"
        raise NotAvailableError(what, where=case_id)
    digests = {str(served.data.ids[sample]): _digest(served, sample) for sample in recorded}
    limits = context.limits.inferred(recorded.values())
    model, triton = served.model.name, served.server.version
    rows = dict(zip(digests, recorded.values(), strict=True))
    return RecordedAnswers(model, case_id, triton, run_id, limits, digests, rows)


def recorded_gate(
    context: GateContext, folder: Path, case_id: str, run_id: str | None, on_wait: Callable[[str], None]
) -> AnswerFinding[GateResult]:
    """Compare a case's answers with those recorded in the folder. If `run_id` is given, this run records: the
    first case of a model records its answers, and the model's other cases are compared with them; `on_wait`
    is called while another run records. Raises NotAvailableError if no answer is recorded, or none fits."""
    name = context.served.model.name
    path = answers_path(folder, name)
    if run_id is not None:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.hold_path(path, on_wait=on_wait):
            is_own = False
            with contextlib.suppress(InputError):  # of a file that is damaged, or of another version
                is_own = path.is_file() and read(path).run_id == run_id
            if not is_own:
                disk.write_atomically(path, encoded(answers_to_record(context, case_id, run_id)))
    elif not path.is_file():
        what = f"no answers of {name} were recorded"
        raise NotAvailableError(what, where=path, fix="record them: --record-answers")
    return compare_with_recorded(context, case_id, read(path), path)


def compare_with_recorded(
    context: GateContext, case_id: str, earlier: RecordedAnswers, where: Path
) -> AnswerFinding[GateResult]:
    """Ask for the recorded samples again, each alone, and compare the answers with the recorded ones, within
    the wider limits of both cases. Raises InputError if the file is of another model or of other samples."""
    served, outputs = context.served, {name for row in earlier.rows.values() for name in row}
    names = {tensor.name for tensor in served.model.outputs}
    if earlier.model != served.model.name or outputs != names:
        theirs, ours = (", ".join(sorted(tensors)) for tensors in (outputs, names))
        what = f"the answers are of {earlier.model!r} with {theirs}; this is {served.model.name} with {ours}"
        fix = "give the folder of this model's answers: --answers DIR; or record anew: --record-answers"
        raise InputError(what, where=where, fix=fix)
    index_of = {str(name): index for index, name in enumerate(served.data.ids)}
    for name, digest in earlier.digests.items():
        if name not in index_of or _digest(served, index_of[name]) != digest:
            what = f"the answers are to other samples: this run has no {name!r}, or one of another content"
            fix = "give the samples that they were recorded with, or record anew with --record-answers"
            raise InputError(what, where=where, fix=fix)
    expected = {index_of[name]: row for name, row in earlier.rows.items()}
    is_same = case_id == earlier.case_id
    limits = context.limits.inferred(expected.values()).beside_recorded(earlier.limits, by_same_case=is_same)
    by_signature = expect_by_signature(expected, served.data.ids)
    answers = served.ask([[sample] for sample in sorted(expected)])
    finding = ExpectedAnswers(by_signature, limits, "recorded").compare(answers)
    tried = f"{len(expected)} answers recorded of {earlier.case_id} on Triton {earlier.triton}"
    result = GateResult("recorded", len(answers), tried, wrong_text(finding.result), finding.result)
    return AnswerFinding(result, finding.mismatch)


def _digest(served: ServedModel, sample: int) -> str:
    """64 bits of the SHA-256 of the names, types, shapes and content of a sample's inputs."""
    digest = hashlib.sha256()
    inputs = served.data.inputs([sample])
    for tensor in served.model.inputs:
        if tensor.name in inputs:
            row = inputs[tensor.name][0]
            digest.update(f"{tensor.name} {tensor.dtype} {np.shape(row)}\n".encode())
            digest.update(raw_content(np.asarray(row), tensor.dtype))
    return digest.hexdigest()[:16]


def encoded(recorded: RecordedAnswers) -> bytes:
    """The file's content: compressed MessagePack, with the type, the shape and the bytes of each output."""
    return zlib.compress(msgspec.msgpack.encode(recorded, enc_hook=_to_bytes))


def read(path: Path) -> RecordedAnswers:
    """The recorded answers in a file. Raises InputError if it is damaged or of another version."""
    what = "the file of recorded answers"
    fix = "take it from where it was kept, or record anew with --record-answers"
    with readable(what, path, fix):
        # A file that is cut off, or longer than that, gives no whole message.
        compressed = read_bytes(path, what, fix, _MAX_FILE_BYTES)
        packed = zlib.decompressobj().decompress(compressed, _MAX_FILE_BYTES)
        return msgspec.msgpack.decode(packed, type=RecordedAnswers, dec_hook=_from_bytes)


def _to_bytes(values: Any) -> tuple[str, tuple[int, ...], bytes]:
    from tritonclient.utils import np_to_triton_dtype

    array = np.asarray(values)
    datatype = str(np_to_triton_dtype(array.dtype))
    return datatype, array.shape, raw_content(array, datatype)


def _from_bytes(_type: type, written: Any) -> np.ndarray | None:
    """The array of an output; None, which msgspec refuses, if its bytes do not fit its type and shape."""
    datatype, shape, values = written
    return values_of(values, datatype, shape)
