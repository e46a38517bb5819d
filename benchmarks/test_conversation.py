"""A model that takes sequences, or gives any number of answers to a request, answers the same messages in the same way
again."""

from collections.abc import Callable

import pytest

from fixtures.errors import AccuracyError
from fixtures.run.recorder import Recorder
from reports.record.schema import Conversation, Serving
from reports.text.correctness import conversation_failure, conversation_text


@pytest.mark.stage("conversation")
def test_conversation(
    compare_conversation: Callable[[], tuple[Serving, Conversation]], recorder: Recorder
) -> None:
    """The same messages get the same answers again, also in turns with another sequence's messages."""
    serving, found = compare_conversation()
    recorder.conversation(serving, found)
    recorder.figure(conversation_text(found))
    if failure := conversation_failure(found):
        raise AccuracyError(failure)
