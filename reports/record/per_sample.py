"""The file of samples beside a record: the score of every sample after each stage, and the worst samples
themselves."""

import json
import os
from pathlib import Path
from typing import Literal

import msgspec

from reports.record import files
from reports.record.schema import (
    Accuracy,
    ByName,
    Case,
    Count,
    LongText,
    Number,
    Record,
    Struct,
    Text,
    case_id,
)

SCHEMA = 1
STAGES = ("framework", "converted", "served")


class Part(Struct, frozen=True):
    """A piece of what a sample shows."""

    kind: Literal["image", "text"]
    title: Text
    content: LongText
    """Plain text, or a PNG in base64."""


class Sample(Struct, frozen=True):
    """One of the worst samples."""

    id: Text
    why: Text
    """What is bad about it, in a few words."""
    parts: tuple[Part, ...]


class SampleScores(Struct, frozen=True):
    """The samples that a ledger counts."""

    case: Case
    digest: Text
    """The build's: of another build than the record's, the file says nothing about the record."""
    ids: tuple[Text, ...]
    scores: ByName[ByName[tuple[Number, ...]]]
    """The score of each sample in the order of `ids`, by metric as in the ledger, then by stage (STAGES)."""
    worst: tuple[Sample, ...]
    """The worst samples: those that were lost between stages first, then the lowest scores."""
    schema: Count = SCHEMA


def path_of(case: Case, results: Path) -> Path:
    """Where the samples of the case's own ledger lie below the folder `results`: beside its record."""
    return files.path_of(case, results).with_suffix(files.SAMPLES_SUFFIX)


def path_of_search(case: Case, results: Path) -> Path:
    """Where those of a search's winner lie: beside the winner's config.pbtxt."""
    return results / case.target / f"{case_id(case)}{files.SEARCH_SUFFIX}" / "samples.json"


def write(samples: SampleScores, path: Path) -> None:
    """Write `samples` whole or not at all, on one line: a data set of 50,000 has as many numbers in each
    list."""
    text = json.dumps(msgspec.to_builtins(samples), separators=(",", ":"), allow_nan=False) + "\n"
    files.replace(path, text.encode())


def read(path: Path, folder: Path | None = None) -> SampleScores:
    """Read one file; raises files.RecordError, which names the file and the key, if it is not a whole one.

    It lies in the record's `folder`, or below that; by default in the one it is in.
    """
    found = files.parse(SampleScores, path, SCHEMA, folder)
    for metric, stages in found.scores.items():
        for stage, scores in stages.items():
            if stage not in STAGES or len(scores) != len(found.ids):
                raise files.RecordError(
                    f"{path}: scores.{metric}.{stage}: {len(scores)} scores for {len(found.ids)} samples, by "
                    f"one of the stages {', '.join(STAGES)}. Delete the file and measure the case again."
                )
    return found


def of_record(record: Record, results: Path) -> SampleScores | None:
    """The samples that the record's ledger counts; None where there is no such file, or it is of another
    build."""
    return of_ledger(record, record.accuracy, path_of(record.case, results))


def of_search(record: Record, results: Path) -> SampleScores | None:
    """The samples that the ledger of a search's winner counts; None as for `of_record`."""
    accuracy = record.search.accuracy if record.search else None
    path = path_of_search(record.case, results)
    return of_ledger(record, accuracy, path, path.parent.parent)


def of_ledger(
    record: Record, accuracy: Accuracy | None, path: Path, folder: Path | None = None
) -> SampleScores | None:
    """The samples in the file at `path`, which lies in the record's `folder`, if they are those that a ledger
    of the record counts, else None."""
    if accuracy is None or not os.path.lexists(path):
        return None
    found = read(path, folder)
    expected = (record.case, record.build.digest, accuracy.samples)
    return found if (found.case, found.digest, len(found.ids)) == expected else None
