"""Real servers: a leak of 1 KiB per request is found, and a clean server passes."""

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.measure.usage import MEMORY, read_usage, watch
from fixtures.soak import keep_loaded, load_again, soak_entry
from reports.record.schema import Soak
from reports.tables.soak import soak_text
from tests.soak.leaking import LEAKS, served

pytestmark = pytest.mark.campaign

SECONDS = 40.0
"""Length of a soak: a fifteenth of what users are advised, so a leak adds up to a fifteenth."""
LOADING_S = 540.0
"""A third of it is for loadings: the test needs fourteen, and on a busy machine the Python backend takes
several seconds for each."""
LOADING_LEAK = "open(f'/dev/shm/tritonproof-test-{os.getpid()}', 'wb').write(b'x' * (8 << 20))"


def soak(folder: Path, *, loads_again: bool = False, loading: str = "pass", request: str = "pass") -> Soak:
    """Soak a real server whose model runs this code at each loading and each request."""
    with served(folder, request=request, loading=loading) as model:
        read = functools.partial(read_usage, watch(model.job.server))
        loaded = keep_loaded(model.job, SECONDS, read)
        loadings = load_again(model.load, LOADING_S, read, most=16) if loads_again else []
        return soak_entry(model.job.point, loaded, loadings)


def leaking(found: Soak) -> set[tuple[str, str]]:
    assert found.answers is not None
    assert found.answers.verified > found.answers.wrong == 0
    return {(growth.what, growth.per) for growth in found.growth if growth.verdict == "failed"}


@pytest.fixture
def no_segments_left() -> Iterator[None]:
    """Removes the segments that a model leaked on purpose."""
    yield
    for path in MEMORY.glob("tritonproof-test-*"):
        path.unlink()


@pytest.mark.parametrize(
    ("leak", "what"),
    [("1 KiB", "memory of its stubs"), ("a file", "open files"), ("a segment", "shared memory")],
)
@pytest.mark.usefixtures("no_segments_left")
def test_leak_per_request_is_found_with_its_size(leak: str, what: str, tmp_path: Path) -> None:
    result = soak(tmp_path, request=LEAKS[leak])

    assert leaking(result) == {(what, "request")}, soak_text(result)
    if leak == "1 KiB":
        slope = next(growth.slope for growth in result.growth if growth.what == what)
        # Python and malloc add less than a tenth to 1,024 bytes.
        assert slope.low < 1.1 * 1024
        assert slope.high > 1024


@pytest.mark.usefixtures("no_segments_left")
def test_leak_per_loading_is_found(tmp_path: Path) -> None:
    result = soak(tmp_path, loads_again=True, loading=LOADING_LEAK)

    assert leaking(result) == {("shared memory", "loading")}, soak_text(result)


def test_clean_server_passes(tmp_path: Path) -> None:
    result = soak(tmp_path, loads_again=True)

    assert {growth.verdict for growth in result.growth} == {"passed"}, soak_text(result)
    assert {growth.per for growth in result.growth} == {"request", "loading"}
