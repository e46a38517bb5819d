"""A converted model that is not what was built: it is built anew, or refused, and never served."""

from collections.abc import Callable

from tests.faults.place import OWN_PROOF, Ended, Place
from tests.faults.scenario import PASSED, Scenario


def _changed(name: str, change: Callable[[Place], object]) -> Scenario:
    def act(place: Place) -> Ended:
        change(place)
        ended = place.run(*OWN_PROOF)
        assert "unchanged, reused" not in ended.text, "what was changed was served"
        return ended

    return Scenario(f"in a build, {name}", act, (PASSED,))


def _linked(place: Place) -> None:
    path = place.build / "1"
    elsewhere = path.rename(place.folder / "elsewhere")
    path.symlink_to(elsewhere)


def _slowed(place: Place) -> None:
    path = place.build / "1" / "runtime.py"
    path.write_text(f"import time\n{path.read_text()}\ntime.sleep(0.05)\n")


SCENARIOS = [
    _changed("runtime.py is slower", _slowed),
    _changed("version 1 is a link", _linked),
    _changed("build.json is cut short", lambda place: (place.build / "build.json").write_text('{"digest": ')),
]
