"""Other users' files and endless files: a run reports them in a sentence, and changes none of them."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.faults.another_user import BECOME, cannot_become, give
from tests.faults.place import OWN_PROOF, PROOF, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario, root


def _locked(place: Place) -> Ended:
    """The user of the run must not read the checkpoint."""
    give(place)
    secret = place.file("secret", b"\x00" * 64)
    secret.chmod(0)
    return place.run(*OWN_PROOF, "--checkpoint", f"classifier={secret}", before=BECOME)


def _of_another(name: str, make: Callable[[Path], object]) -> Scenario:
    """Another user has taken the name of this user's temporary folder."""

    def act(place: Place) -> Ended:
        victim = place.file("victim", "precious\n")
        shared = place.household.temporary / f"tritonproof-{os.getuid()}"
        make(shared)
        ended = place.run(*PROOF)
        assert victim.read_text() == "precious\n"
        if shared.is_dir() and not shared.is_symlink() and shared.stat().st_uid == 12345:
            os.chown(shared, 0, 0)
        return ended

    return Scenario(
        f"{name} is at the name of this user's temporary folder",
        act,
        (PASSED, REFUSED, INFRASTRUCTURE),
        needs=root,
    )


def _their_folder(path: Path) -> None:
    path.mkdir(mode=0o777)
    os.chown(path, 12345, 12345)


SCENARIOS = [
    Scenario(
        "a checkpoint that never ends",
        lambda place: place.run(*OWN_PROOF, "--checkpoint", "classifier=/dev/zero"),
        (REFUSED,),
        names="--checkpoint",
    ),
    Scenario(
        "another user's checkpoint, which must not be read", _locked, (REFUSED,), "secret", cannot_become
    ),
    _of_another("another user's folder", _their_folder),
    _of_another("a link", lambda path: path.symlink_to(path.parents[1])),
]
