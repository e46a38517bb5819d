"""Bad options and bad files: one sentence and status 4 before anything runs; what is not a regular file stays what it is."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from tests.faults.another_user import BECOME, cannot_become, give
from tests.faults.place import OWN_PROOF, PROOF, Ended, Place
from tests.faults.scenario import INFRASTRUCTURE, PASSED, REFUSED, Scenario, root


def _options(*words: str) -> Scenario:
    shown = " ".join(
        word if len(word) < 40 else f"{word[:20]}... of {len(word)} characters" for word in words
    )
    return Scenario(shown, lambda place: place.run(*OWN_PROOF, *words), (REFUSED,), says="cure:|error")


def _given(name: str, options: Callable[[Place], tuple[str, ...]], says: str = "cure:|error") -> Scenario:
    return Scenario(name, lambda place: place.run(*OWN_PROOF, *options(place)), (REFUSED,), says=says)


def _folder(name: str, option: str, make: Callable[[Path], object]) -> Scenario:
    """--results or --model-repos, which is not a folder that can be written to."""

    def act(place: Place) -> Ended:
        path = place.folder / "given"
        make(path)
        if option == "--results":
            return place.run(*PROOF, results=path)
        return place.run(*OWN_PROOF, repos=path)

    return Scenario(f"{option} {name}", act, (REFUSED, INFRASTRUCTURE), says=option)


def _locked(name: str, options: Callable[[Place, Path], tuple[str, ...]]) -> Scenario:
    """A file that the user who runs must not read."""

    def act(place: Place) -> Ended:
        give(place)
        secret = place.file("secret", b"\x00" * 64)
        secret.chmod(0)
        return place.run(*OWN_PROOF, *options(place, secret), before=BECOME)

    return Scenario(
        f"another user's {name}, which must not be read", act, (REFUSED,), says="secret", needs=cannot_become
    )


def _special(
    name: str, make: Callable[[Path], object], option: str, statuses: tuple[int, ...] = (PASSED, REFUSED)
) -> Scenario:
    """A file to write that is no regular one: it is there after, and still the same."""

    def act(place: Place) -> Ended:
        path = place.folder / "special"
        make(path)
        before = path.lstat()
        ended = place.run(*PROOF, option, str(path))
        after = path.lstat()
        assert stat.S_IFMT(after.st_mode) == stat.S_IFMT(before.st_mode), "it was replaced"
        assert after.st_ino == before.st_ino, "it was replaced"
        return ended

    needs = root if name.startswith("a device") else (lambda: "")
    return Scenario(f"{option} {name}", act, statuses, needs=needs)


def _page_to(name: str, make: Callable[[Path], object]) -> Scenario:
    """A page that is written to no regular file: that is there after, and still the same."""

    def act(place: Place) -> Ended:
        assert place.run(*PROOF).status == PASSED
        path = place.folder / "special"
        make(path)
        before = path.lstat()
        ended = place.reports("html", "--output", str(path), "--results", str(place.results))
        after = path.lstat()
        assert (after.st_ino, stat.S_IFMT(after.st_mode)) == (before.st_ino, stat.S_IFMT(before.st_mode))
        return ended

    needs = root if name == "a device" else (lambda: "")
    return Scenario(f"reports html --output {name}", act, (PASSED, 1, 2, REFUSED), needs=needs)


def _link(path: Path) -> None:
    path.with_name("target").write_text("of somebody\n")
    path.symlink_to(path.with_name("target"))


def _null(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def _model_file(name: str, content: str) -> Scenario:
    return _given(
        f"--models FILE, {name}", lambda place: ("--models", str(place.file("mine.py", content))), "mine.py"
    )


def _squad(name: str, path: Callable[[Place], Path]) -> Scenario:
    def options(place: Place) -> tuple[str, ...]:
        return ("-k", "cpu-bert-micro-ts-trace-fp32 and conversion", "--dataset", f"bert-micro={path(place)}")

    return _given(f"--dataset bert-micro={name}", options)


def _fifo(place: Place) -> Path:
    path = place.folder / "fifo"
    os.mkfifo(path)
    return path


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


def _folder_of_links(path: Path) -> None:
    path.mkdir(mode=0o700)
    victim = path.parents[1] / "victim"
    for name in ("runs", "lib"):
        (path / name).symlink_to(victim)


def _folder_of_fifos(path: Path) -> None:
    path.mkdir(mode=0o700)
    for name in ("runs", "lib"):
        os.mkfifo(path / name)


SCENARIOS = [
    _options("--against", ""),
    _options("--against", "no-such-ref"),
    _options("--deployment", "max_batch_size=99999999999"),
    _options("--deployment", "instances=1000000"),
    _options("--deployment", f"max_queue_delay_us={'9' * 30}"),
    _options("--deployment", "instances=-1"),
    _options("--batches", "999999999999"),
    _options("--batches", "9" * 5000),
    _options("--concurrencies", "0"),
    _options("--point-budget-s", "nan"),
    _options("--point-budget-s", "1e999"),
    _options("--precision-target", "0"),
    _options("--triton", "docker:--privileged"),
    _options("--triton", "docker:"),
    _options("--triton", "localhost"),
    _options("--triton", "127.0.0.1:99999"),
    _options("--summary", ""),
    _options("--summary", "."),
    _options("--summary", "-"),
    _options("--summary", "/"),
    _options("--results", "~nouser/x"),
    _options("--results", ""),
    _options("--checkpoint", "classifier=/dev/zero"),
    _options("--thresholds", "/dev/zero"),
    _folder("a file", "--results", lambda path: path.write_text("")),
    _folder("a file", "--model-repos", lambda path: path.write_text("")),
    _folder("a dangling link", "--results", lambda path: path.symlink_to("nowhere/at/all")),
    _folder("a dangling link", "--model-repos", lambda path: path.symlink_to("nowhere/at/all")),
    _folder("below a file", "--results", lambda path: path.symlink_to("/dev/null/x")),
    _special("a device", _null, "--summary"),
    _special("a FIFO without a reader", os.mkfifo, "--junit-xml"),
    _special("a FIFO without a reader", os.mkfifo, "--summary", (INFRASTRUCTURE,)),
    _special("a link", _link, "--summary"),
    _page_to("a device", _null),
    _page_to("a FIFO without a reader", os.mkfifo),
    _page_to("a link", _link),
    _model_file("without MODELS", "x = 1\n"),
    _model_file("with an import of what is not there", "import no_such_package\nMODELS = []\n"),
    _model_file("with an error of syntax", "MODELS = [\n"),
    _model_file("that raises", "raise RuntimeError('as it is imported')\n"),
    _squad("a FIFO", _fifo),
    _squad("/dev/zero", lambda _place: Path("/dev/zero")),
    _locked("checkpoint", lambda _place, path: ("--checkpoint", f"classifier={path}")),
    _locked("file of models", lambda _place, path: ("--models", str(path))),
    _locked("thresholds", lambda _place, path: ("--thresholds", str(path))),
    _of_another("another user's folder", _their_folder),
    _of_another("a link", lambda path: path.symlink_to(path.parents[1])),
    _of_another("a folder of links", _folder_of_links),
    _of_another("a folder of FIFOs", _folder_of_fifos),
]
