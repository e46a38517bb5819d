"""Real servers under load for a while: a leak of 1 KiB a request is found, and a clean server raises no alarm."""

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.soak.record_entry import record_entry
from fixtures.soak.under_load import keep_loaded, load_again
from fixtures.soak.usage import MEMORY, usage_of, watch
from reports.record.schema import Soak
from reports.words.soaking import soak_text
from tests.soak.leaking import LEAKS, served

pytestmark = pytest.mark.campaign

SECONDS = 60.0
"""Of a soak: a tenth of what users are told, so that ten times less is in it to be found."""
LOADING_LEAK = "open(f'/dev/shm/tritonproof-test-{os.getpid()}', 'wb').write(b'x' * (8 << 20))"


def soak(folder: Path, seconds: float = SECONDS, *, loading: str = "pass", request: str = "pass") -> Soak:
    """A soak of a real server whose model does so."""
    with served(folder, request=request, loading=loading) as model:
        watched = watch(model.job.server)
        read = functools.partial(usage_of, watched)
        loaded = keep_loaded(model.job, seconds, read)
        # Fourteen loadings of a model of the Python backend take up to a minute on a busy machine.
        return record_entry(model.job.point, loaded, load_again(model.load, 6 * SECONDS, read))


def leaking(found: Soak) -> set[tuple[str, str]]:
    assert found.answers is not None
    assert found.answers.verified > found.answers.wrong == 0
    return {(one.what, one.per) for one in found.growth if one.verdict == "failed"}


@pytest.fixture
def no_segments_left() -> Iterator[None]:
    """Removes the segments that a model has forgotten on purpose."""
    yield
    for path in MEMORY.glob("tritonproof-test-*"):
        path.unlink()


@pytest.mark.parametrize(
    ("leak", "what"),
    [("1 KiB", "memory of its stubs"), ("a file", "open files"), ("a segment", "shared memory")],
)
@pytest.mark.usefixtures("no_segments_left")
def test_what_each_request_leaves_is_found_with_its_size(leak: str, what: str, tmp_path: Path) -> None:
    found = soak(tmp_path, request=LEAKS[leak])

    assert leaking(found) == {(what, "request")}, soak_text(found)
    if leak == "1 KiB":
        slope = next(one.slope for one in found.growth if one.what == what)
        # What Python adds to 1,024 bytes, and malloc to that, is less than a tenth.
        assert slope.low < 1.1 * 1024
        assert slope.high > 1024


@pytest.mark.usefixtures("no_segments_left")
def test_what_each_loading_leaves_is_found(tmp_path: Path) -> None:
    found = soak(tmp_path, SECONDS / 2, loading=LOADING_LEAK)

    assert leaking(found) == {("shared memory", "loading")}, soak_text(found)


def test_a_clean_server_raises_no_alarm_and_passes(tmp_path: Path) -> None:
    found = soak(tmp_path)

    assert {one.verdict for one in found.growth} == {"passed"}, soak_text(found)
    assert {one.per for one in found.growth} == {"request", "loading"}
