"""Records read the same with msgspec and without it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from reports.record import decoding, files
from reports.record.files import RecordError
from tests.record.test_record import complete

pytest.importorskip("msgspec", reason="reads as without it where it is not installed")

WRONG: list[Any] = [None, True, 3, 2.5, -1, 10**30, "text", "", [], [1], {}, {"value": 1.0}, "\ud800", "é\0"]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a record's JSON with each of its keys."""
    inside = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [(value, key) for key, _ in inside] + [place for _, one in inside for place in places(one)]


def outcome(path: Path) -> object:
    """What a file is read as, or the sentence that refuses it."""
    try:
        return files.read(path)
    except RecordError as error:
        return str(error)


def read_without(path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with monkeypatch.context() as bare:
        bare.setattr(decoding, "plain", lambda *_: None)
        return outcome(path)


@pytest.mark.parametrize("seed", range(60))
def test_a_record_with_anything_wrong_in_it_is_told_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    for number in range(5):
        path = tmp_path / f"{number}.json"
        data = json.loads(files.encode(complete()))
        container, key = chance.choice(places(data))
        if chance.random() < 0.3 and isinstance(container, dict):
            del container[key]
        elif chance.random() < 0.3 and isinstance(container, dict):
            container[f"{key}\x1b"] = container[key]
        else:
            container[key] = chance.choice(WRONG)
        path.write_text(json.dumps(data))
        assert outcome(path) == read_without(path, monkeypatch)


def test_a_whole_record_is_read_by_msgspec_where_it_is_there(tmp_path: Path) -> None:
    found = decoding.plain(type(complete()), files.encode(complete()))
    assert found is not None
    assert decoding.built(type(complete()), found) == complete()
