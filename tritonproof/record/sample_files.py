"""The file of samples beside a record: the score of every sample after each stage, and the worst samples."""

import json
import os
from pathlib import Path
from typing import Literal

import msgspec

from tritonproof.base import disk
from tritonproof.record import Record, fields, record_files, setup

STAGES = ("framework", "converted", "served")


class SamplePart(fields.Struct, frozen=True):
    """A part of a sample's picture or text."""

    kind: Literal["image", "text"]
    title: fields.Text
    content: fields.LongText
    """Plain text, or a PNG in base64."""


class Sample(fields.Struct, frozen=True):
    """One of the worst samples."""

    id: fields.Text
    why: fields.Text
    """The fault, in a few words."""
    parts: tuple[SamplePart, ...]


class SampleScores(fields.Struct, frozen=True):
    """The file beside a record: the score of every sample after each stage, and the worst samples."""

    case: setup.CaseKey
    digest: fields.Text
    """The digest of the build; the scores of another build say nothing about the record."""
    ids: tuple[fields.Text, ...]
    scores: fields.ByName[fields.ByName[tuple[fields.Number, ...]]]
    """The score of each sample, in the order of `ids`, by metric as in the ledger, then by stage (STAGES)."""
    worst: tuple[Sample, ...]
    """The samples to show: those lost between stages, then those decided differently, then low scores."""
    schema: Literal[1] = 1


def samples_path(case: setup.CaseKey, results_folder: Path) -> Path:
    """The path of the samples of the case's ledger, beside its record."""
    return record_files.record_path(case, results_folder).with_suffix(record_files.SAMPLES_SUFFIX)


def write(samples: SampleScores, path: Path) -> None:
    """Write `samples` on one line, as each list of a data set of 50,000 samples has as many numbers."""
    text = json.dumps(msgspec.to_builtins(samples), separators=(",", ":"), allow_nan=False) + "\n"
    disk.write_atomically(path, text.encode())


def read(path: Path, folder: Path | None = None) -> SampleScores:
    """Read a file in or below `folder`, by default its own. Raises RecordError if it is incomplete."""
    samples = record_files.parse(SampleScores, path, folder)
    for metric, stages in samples.scores.items():
        for stage, scores in stages.items():
            if stage not in STAGES or len(scores) != len(samples.ids):
                problem = f"no score of each sample after one of the stages {', '.join(STAGES)}"
                fix = "Delete the file and measure the case again"
                raise record_files.RecordError(f"{path}: scores.{metric}.{stage}: {problem}. {fix}.")
    return samples


def scores_of(record: Record, path: Path) -> SampleScores | None:
    """The samples of the ledger of the record at `path`; None without a file of the same build."""
    path = path.with_suffix(record_files.SAMPLES_SUFFIX)
    if record.accuracy is None or not os.path.lexists(path):
        return None
    scores = read(path)
    expected = (record.case, record.build.digest, record.accuracy.samples)
    return scores if (scores.case, scores.digest, len(scores.ids)) == expected else None
