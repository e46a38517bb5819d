"""Real servers: a leak of 1 KiB per request is found, and a clean server passes."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fixtures.soak.under_load import keep_loaded, load_again, load_in_vain, record_entry, write_failing
from fixtures.soak.usage import MEMORY, Per, Usage, usage_of, watch
from reports.record.schema import Soak
from reports.text.soak import soak_text
from tests.soak.leaking import LEAKS, served

pytestmark = pytest.mark.campaign

SECONDS = 40.0
"""Of a soak: a fifteenth of what users are told, so that as much less is in it to be found."""
LOADING_S = 540.0
"""Of which a third is for loadings: of the Python backend's model one takes several seconds on a busy
machine, and fourteen are needed."""
LOADING_LEAK = "open(f'/dev/shm/tritonproof-test-{os.getpid()}', 'wb').write(b'x' * (8 << 20))"


def soak(folder: Path, *, loading: str = "pass", request: str = "pass", loadings: bool = False) -> Soak:
    """A soak of a real server whose model does so at each loading and each request."""
    with served(folder, request=request, loading=loading) as model:
        watched = watch(model.job.server)
        read = functools.partial(usage_of, watched)
        loaded = keep_loaded(model.job, SECONDS, read)
        again: dict[Per, Sequence[Usage]] = {}
        if loadings:
            again["loading"] = load_again(model.load, LOADING_S, read, most=16)
        return record_entry(model.job.point, loaded, again)


@pytest.mark.usefixtures("no_segments_left")
def test_leak_of_failed_loadings_is_found(tmp_path: Path) -> None:
    with served(tmp_path, loading=LOADING_LEAK) as model:
        server, name = model.job.server, model.job.name
        config = server.client.get_model_config(name).config
        copy = write_failing(tmp_path / "models" / name, config, tmp_path / "models")
        read = functools.partial(usage_of, watch(server))
        loaded = keep_loaded(model.job, SECONDS, read)
        failed = load_again(functools.partial(load_in_vain, server, copy), LOADING_S, read, most=16)
        found = record_entry(model.job.point, loaded, {"failed_loading": failed})

    assert leaking(found) == {("shared memory", "failed_loading")}, soak_text(found)


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
def test_leak_per_request_is_found_with_its_size(leak: str, what: str, tmp_path: Path) -> None:
    found = soak(tmp_path, request=LEAKS[leak])

    assert leaking(found) == {(what, "request")}, soak_text(found)
    if leak == "1 KiB":
        slope = next(one.slope for one in found.growth if one.what == what)
        # What Python adds to 1,024 bytes, and malloc to that, is less than a tenth.
        assert slope.low < 1.1 * 1024
        assert slope.high > 1024


@pytest.mark.usefixtures("no_segments_left")
def test_leak_per_loading_is_found(tmp_path: Path) -> None:
    found = soak(tmp_path, loading=LOADING_LEAK, loadings=True)

    assert leaking(found) == {("shared memory", "loading")}, soak_text(found)


def test_clean_server_passes(tmp_path: Path) -> None:
    found = soak(tmp_path, loadings=True)

    assert {one.verdict for one in found.growth} == {"passed"}, soak_text(found)
    assert {one.per for one in found.growth} == {"request", "loading"}
