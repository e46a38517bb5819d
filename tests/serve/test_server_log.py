"""The excerpt of a server's log shows why the server ended."""

from pathlib import Path

from fixtures.serve.server_log import last_words, tail_of, why_not_loaded

WHAT = "  what():  Failed to create temporary directory for Python environments."
FRAMES = [f"{number:2}# 0x00007F4AD225A050 in /lib/libc.so.6" for number in range(20)]


def written(folder: Path, *lines: str) -> Path:
    """Write a log of these lines."""
    (folder / "log").write_text("\n".join(lines) + "\n")
    return folder / "log"


def test_stack_trace_does_not_hide_exception_message(tmp_path: Path) -> None:
    named = "10# TRITONBACKEND_Initialize in /backends/python/libtriton_python.so"
    log = written(tmp_path, "loading", WHAT, "Signal (6) received.", *FRAMES, named, *FRAMES)

    assert last_words(log) == ("loading", WHAT, "Signal (6) received.", named)


def test_error_is_shown_despite_later_output(tmp_path: Path) -> None:
    errors = [f'E1123 10:59:0{number}.77 12 model_lifecycle.cc:642] "failed"' for number in range(5)]
    later = [f'I1123 10:59:10.77 12 server.cc:604] "{number}"' for number in range(40)]
    log = written(tmp_path, "started", WHAT, *errors, *later)

    assert last_words(log) == (*errors[-3:], *later[-15:])
    assert "  | E1123 10:59:04" in tail_of(log)


def test_short_log_is_whole_and_missing_log_empty(tmp_path: Path) -> None:
    assert last_words(written(tmp_path, "E1123 first", "", "second")) == ("E1123 first", "second")
    assert last_words(None) == ()
    assert tail_of(tmp_path / "gone") == ""


def test_load_failure_reason_is_of_that_model(tmp_path: Path) -> None:
    def failed(name: str, reason: str) -> str:
        return f"E1124 03:18:53.9 12 manager.cc:1460] \"Poll failed for model directory '{name}': {reason}\""

    waiting = "I1124 03:18:55.2 13 pb_stub.cc:2105]  Failed to preinitialize Python stub: no file 'model.py'"
    log = written(
        tmp_path,
        failed("mine", "no dims"),
        failed("yours", "no backend"),
        'I1124 03:18:55.2 12 lifecycle.cc:472] "loading: third:1"',
        waiting,
        'I1124 03:18:56.2 12 lifecycle.cc:472] "loading: fourth:1"',
    )

    assert why_not_loaded(log, "yours") == "no backend"
    assert why_not_loaded(log, "third") == "no file 'model.py'"
    assert why_not_loaded(log, "fourth") == ""
    assert why_not_loaded(None, "mine") == ""


def test_usual_error_without_gpu_is_ignored(tmp_path: Path) -> None:
    usual = 'E1123 10:59:01.769193 12 server.cc:241] "CudaDriverHelper has not been initialized."'
    later = [f"line {number}" for number in range(40)]

    assert last_words(written(tmp_path, usual, *later)) == tuple(later[-15:])
