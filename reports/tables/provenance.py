"""Where cases were measured and who served them: a sentence where they agree, a list by case where they differ."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from reports.record.schema import Machine, Record, Serving
from reports.words.markdown import text
from reports.words.origins import measured_text
from reports.words.shown import name_of

Shared = TypeVar("Shared")


def machine_sentence(records: Sequence[Record]) -> str:
    """The machine the records were measured on, a list by case if there was more than one; and in which runs."""
    stamps = _cases_of(records, lambda record: dataclasses.replace(record.machine, gpu_uuids=()))
    if len(stamps) == 1:
        found = f"Measured on {_machine(stamps[0][0])}."
    else:
        found = "Measured on more than one machine or set of versions:\n\n" + _listed(stamps, _machine)
    return found + _gpus_used(records) + _origins(records)


def _origins(records: Sequence[Record]) -> str:
    """The hosts, commits and runs; empty where no record says."""
    found = measured_text(records)
    at = "at " if found.startswith("commit") else ""  # as no host says where
    return f"\n\nMeasured {at}{text(found)}." if found else ""


def _gpus_used(records: Sequence[Record]) -> str:
    """Which GPUs of the machine they were, by UUID; empty where no record says."""
    found = _cases_of(records, lambda record: tuple(record.machine.gpu_uuids))
    if not any(uuids for uuids, _ in found):
        return ""
    if len(found) == 1:
        return f" Used was {_uuids(found[0][0])}."
    return "\n\nUsed were:\n\n" + _listed(found, _uuids)


def _uuids(uuids: Sequence[str]) -> str:
    return text(", ".join(uuids) or "a GPU that the record does not name, or none")


def serving_sentence(records: Sequence[Record]) -> str:
    """The server and backend that answered; a list by case if there was more than one."""
    servers = _cases_of(records, lambda record: record.serving)
    if len(servers) == 1:
        sentence = _serving(servers[0][0])
        return f"{sentence[0].upper()}{sentence[1:]}."
    return "Served in more than one way:\n\n" + _listed(servers, _serving)


def _cases_of(records: Sequence[Record], part: Callable[[Record], Shared]) -> list[tuple[Shared, list[str]]]:
    """Each different part of the records, in their order, with the cases that have it."""
    found: list[tuple[Shared, list[str]]] = []
    for record in records:
        cases = next((cases for one, cases in found if one == part(record)), None)
        if cases is None:
            found.append((part(record), cases := []))
        cases.append(f"`{name_of(record)}`")
    return found


def _listed(found: Sequence[tuple[Shared, list[str]]], said: Callable[[Shared], str]) -> str:
    return "\n".join(f"- {', '.join(cases)}: {said(one)}." for one, cases in found)


def _machine(machine: Machine) -> str:
    gpu = f"{machine.gpu} (driver {machine.gpu_driver}), " if machine.gpu else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    sentence = f"{gpu}{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB memory; {machine.system}"
    return text(f"{sentence}; {versions}" if versions else sentence)


def _serving(serving: Serving | None) -> str:
    if serving is None:
        return "not served yet"
    digest = f"@{serving.image_digest}" if serving.image_digest else ""
    image = f", {serving.image}{digest}" if serving.image else ""
    versions = ", ".join(f"{name} {version}" for name, version in serving.versions.items())
    sentence = f"served by Triton {serving.triton} ({serving.kind}{image}), {serving.backend} backend"
    return text(f"{sentence}; in the server {versions}" if versions else sentence)
