"""A task on a node runs the suite and sends each finished test with its files."""

import json
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.helpers import git
from tritonproof.base.errors import SetupError
from tritonproof.fleet import environment
from tritonproof.fleet.node_work import Mailbox, NodeOrder, NodeReport, run_tests

Run = Callable[..., tuple[str, list[NodeReport]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a shell script in place of the suite's Python, which has written a history; it finds the folder of
    results and the file of events in $RESULTS and $EVENTS. Returns why the run ended, and its messages."""
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "mine.py").write_text("mine\n")
    git(suite, "init")
    packed = environment.pack(suite)
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(get=lambda answer: answer))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(environment, "node_variables", lambda: {"PATH": "/bin:/usr/bin"})
    monkeypatch.setenv(environment.CACHE, str(tmp_path))

    def run(script: str, *, files: dict[str, bytes] | None = None, wanted: bool = True) -> Any:
        python = tmp_path / "python"
        python.write_text(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in\n--fleet-report) EVENTS=$2;; --results) "
            "RESULTS=$2;; --history) HISTORY=$2;;\nesac; shift; done\n: ${HISTORY:=$RESULTS/history}\n"
            f"mkdir -p $RESULTS/cpu $HISTORY\ntouch $HISTORY/cpu.jsonl\n{script}\n"
        )
        python.chmod(0o700)
        mailbox = Mailbox()
        if not wanted:
            mailbox.close()
        handle = types.SimpleNamespace(post=types.SimpleNamespace(remote=mailbox.post))
        variables = {environment.PYTHON: str(python)}
        order = NodeOrder("cpu bert", ("a.py::test",), "cpu", (), variables, files or {})
        return run_tests(order, packed, handle), mailbox.collect()

    return run


def test_finished_test_sends_changed_results(run: Run) -> None:
    before = {"cpu/kept": b"1", "cpu/changed": b"1", "cpu/moved": b"1"}

    script = "cat mine.py; cd $RESULTS/cpu; echo 22 > changed; echo new > new; echo x > .hidden; rm moved\n"
    finished = {"finished": "a.py::test", "reports": []}
    why, messages = run(f"{script}echo '{json.dumps(finished)}' >> $EVENTS\nexit 3", files=before)

    (files,) = [message.files for message in messages if message.files]
    assert files == {"cpu/changed": b"22\n", "cpu/new": b"new\n", "cpu/moved": None}
    assert [event for message in messages for event in message.events] == [{"began": 1}, finished]
    assert [line for message in messages for line in message.log] == ["mine"]
    assert "3" in why


def test_results_of_unfinished_test_are_not_sent(run: Run) -> None:
    _, messages = run("echo half > $RESULTS/cpu/half; echo half")
    assert ["half"] in [message.log for message in messages]
    assert [message.files for message in messages if message.files] == []


def test_unwanted_run_does_not_begin(run: Run, tmp_path: Path) -> None:
    run(f"touch {tmp_path}/began", wanted=False)
    assert not (tmp_path / "began").exists()


def test_run_no_longer_wanted_is_ended(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mailbox, "post", lambda _, message: bool(message.events))
    run(f"echo $$ > {tmp_path}/pid; sleep 600")
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


def test_missing_python_is_reported_as_cause(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "python_for", lambda *_: Path("/no/such/python"))
    why, messages = run("")
    assert "127" in why
    assert any("/no/such/python" in line for message in messages for line in message.log)
    monkeypatch.setattr(environment, "python_for", Mock(side_effect=SetupError("tox fails")))
    assert run("")[1][-1].events == [{"stopped": "tox fails"}]
