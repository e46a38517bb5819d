"""A model of sequences, or with any number of answers, answers the same messages in the same way again."""

import pytest

from fixtures.errors import AccuracyError
from fixtures.plugin.recorder import Recorder
from fixtures.run.case_run import CaseRun
from reports.text.correctness import conversation_failure, conversation_text


@pytest.mark.stage("conversation")
def test_conversation(run: CaseRun, recorder: Recorder) -> None:
    """The same messages get the same answers again, also in turns with another sequence's messages."""
    serving, conversation = run.converse()
    recorder.keep(serving, conversation=conversation)
    recorder.show_figure(conversation_text(conversation))
    if failure := conversation_failure(conversation):
        raise AccuracyError(failure)
