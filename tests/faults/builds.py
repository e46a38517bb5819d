"""A converted model that is not what was built: it is built anew, or refused, and never served."""

import json
import shutil
from collections.abc import Callable
from typing import Any

from tests.faults.place import OWN_PROOF, Ended, Place
from tests.faults.scenario import PASSED, Scenario


def _changed(name: str, change: Callable[[Place], object]) -> Scenario:
    def act(place: Place) -> Ended:
        change(place)
        ended = place.run(*OWN_PROOF)
        assert "unchanged, reused" not in ended.text, "what was changed was served"
        return ended

    return Scenario(f"in a build, {name}", act, (PASSED,), says="built in")


def _facts(content: str) -> Callable[[Place], object]:
    return lambda place: (place.build / "build.json").write_text(content)


def _fact(change: Callable[[dict[str, Any]], object]) -> Callable[[Place], object]:
    def act(place: Place) -> None:
        path = place.build / "build.json"
        facts = json.loads(path.read_text())
        change(facts)
        path.write_text(json.dumps(facts))

    return act


def _linked(place: Place) -> None:
    path = place.build / "1"
    elsewhere = path.rename(place.folder / "elsewhere")
    path.symlink_to(elsewhere)


def _slowed(place: Place) -> None:
    path = place.build / "1" / "runtime.py"
    path.write_text(f"import time\n{path.read_text()}\ntime.sleep(0.05)\n")


SCENARIOS = [
    _changed("runtime.py is slower", _slowed),
    _changed("model.py is empty", lambda place: (place.build / "1" / "model.py").write_text("")),
    _changed("model.py is gone", lambda place: (place.build / "1" / "model.py").unlink()),
    _changed("there is a version 2", lambda place: shutil.copytree(place.build / "1", place.build / "2")),
    _changed(
        "there is more in version 1", lambda place: (place.build / "1" / "more.py").write_text("x = 1\n")
    ),
    _changed("version 1 is a link", _linked),
    _changed(
        "the weights are others",
        lambda place: (place.build / "1" / "model.onnx").write_bytes(b"other"),
    ),
    _changed("build.json is a list", _facts("[]")),
    _changed("build.json is null", _facts("null")),
    _changed("build.json is deep", _facts("[" * 100_000)),
    _changed("build.json is cut short", _facts('{"digest": ')),
    _changed("build.json lacks a key", _fact(lambda facts: facts.pop(sorted(facts)[0]))),
    _changed(
        "each number of build.json is a text",
        _fact(lambda facts: facts.update({k: "1" for k, v in facts.items() if isinstance(v, float)})),
    ),
]
