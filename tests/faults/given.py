"""Bad options and bad files: one sentence and status 4 before anything runs; what is not a regular file stays what it is."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from tests.faults.another_user import BECOME, cannot_become, give
from tests.faults.place import OWN_PROOF, PROOF, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario, root


def _options(*words: str) -> Scenario:
    return Scenario(" ".join(words), lambda place: place.run(*OWN_PROOF, *words), (REFUSED,), names=words[0])


def _dangling_folder(place: Place) -> Ended:
    path = place.folder / "given"
    path.symlink_to("nowhere/at/all")
    return place.run(*OWN_PROOF, repos=path)


def _locked(place: Place) -> Ended:
    """A file that the user who runs must not read."""
    give(place)
    secret = place.file("secret", b"\x00" * 64)
    secret.chmod(0)
    return place.run(*OWN_PROOF, "--checkpoint", f"classifier={secret}", before=BECOME)


def _summary_to(name: str, make: Callable[[Path], object], statuses: tuple[int, ...]) -> Scenario:
    """A summary that is written to no regular file: it is there after, and still the same."""

    def act(place: Place) -> Ended:
        path = place.folder / "special"
        make(path)
        before = path.lstat()
        ended = place.run(*PROOF, "--summary", str(path))
        after = path.lstat()
        assert stat.S_IFMT(after.st_mode) == stat.S_IFMT(before.st_mode), "it was replaced"
        assert after.st_ino == before.st_ino, "it was replaced"
        return ended

    return Scenario(f"--summary {name}", act, statuses)


def _link(path: Path) -> None:
    path.with_name("target").write_text("of somebody\n")
    path.symlink_to(path.with_name("target"))


def _of_another(name: str, make: Callable[[Path], object]) -> Scenario:
    """Somebody else was first at the name of this user's folder in the temporary one."""

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
    _options("--against", "no-such-ref"),
    _options("--triton", "docker:--privileged"),
    _options("--summary", "/"),
    _options("--checkpoint", "classifier=/dev/zero"),
    Scenario(
        "--model-repos a dangling link", _dangling_folder, (REFUSED, INFRASTRUCTURE), names="--model-repos"
    ),
    _summary_to("a FIFO without a reader", os.mkfifo, (INFRASTRUCTURE,)),
    _summary_to("a link", _link, (PASSED, REFUSED)),
    Scenario(
        "another user's checkpoint, which must not be read",
        _locked,
        (REFUSED,),
        names="secret",
        needs=cannot_become,
    ),
    _of_another("another user's folder", _their_folder),
    _of_another("a link", lambda path: path.symlink_to(path.parents[1])),
]
