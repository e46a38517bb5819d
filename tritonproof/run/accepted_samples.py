"""The first request to a model that is served as it is: it shows which samples the model accepts."""

import itertools
import time
from dataclasses import dataclass

from tritonproof.base.errors import InputError, NotAvailableError, ProofError
from tritonproof.gates.conversations import ConversationMessage, converse, sequence_of
from tritonproof.serve.server import Server
from tritonproof.spec import Arrays, Model, Samples
from tritonproof.user_models.network_samples import VARIABLE_LENGTHS, synthetic_samples

_INTEGER_BOUNDS = (10, 1)
"""Exclusive upper bounds of made-up integers and digits, tried in turn: 10 gives distinct values, 1 zeros."""


@dataclass(frozen=True)
class AcceptedSamples:
    """The samples that a model accepts, from which all requests are made, and its answer to the first."""

    samples: Samples
    note: str
    """Where the samples come from, for the record and for readers."""
    elapsed_s: float
    answer: Arrays | None
    """The answer to the first request, [1, ...] each; None for a model without single requests."""


def send_first_request(
    server: Server, model: Model, samples: Samples | None, origin: str = ""
) -> AcceptedSamples:
    """Send the first of `samples`, whose `origin` the record states. Without any, make some up, with the
    first length of variable dimensions that the server takes and a request can hold.

    Raises InputError if no request can hold a row, ProofError if the model answers none of them, or
    NotAvailableError if its configuration does not say which values it takes.
    """
    if samples is not None:
        count = sum(map(len, samples.other_shapes))
        extra = f", {count} of other shapes than most, one to a request" if count else ""
        return AcceptedSamples(samples, f"{origin}{extra}", *_ask(server, model, samples))
    is_variable = any(-1 in tensor.shape for tensor in model.inputs)
    first_error: ProofError | None = None
    discrete = [input_.name for input_ in model.inputs if not input_.dtype.startswith(("FP", "BF", "BOOL"))]
    lengths = VARIABLE_LENGTHS if is_variable else VARIABLE_LENGTHS[:1]
    for length, bound in itertools.product(lengths, _INTEGER_BOUNDS if discrete else _INTEGER_BOUNDS[:1]):
        try:
            # Raises InputError for a length whose rows are too large.
            samples = synthetic_samples(model.inputs, dict.fromkeys(discrete, bound), length)
            answered = _ask(server, model, samples)
        except ProofError as error:
            if not server.is_live():
                raise
            if first_error is None or isinstance(first_error, InputError):
                first_error = error
            continue
        note = "made up from the configuration" + (f", integers below {bound}" if discrete else "")
        if any(input_.dtype == "BYTES" for input_ in model.inputs):
            note += ", texts of one character: what is done with longer ones is not tried"
        if is_variable:
            note += f", variable dimensions {length} long"
        return AcceptedSamples(samples, note, *answered)
    assert first_error is not None
    if (is_variable or discrete) and not isinstance(first_error, InputError):
        refusal = f"{model.name} refuses made-up samples; it needs real ones (--samples {model.name}=DIR)"
        raise NotAvailableError(f"{refusal}: {first_error.what.splitlines()[0]}")
    raise first_error


def _ask(server: Server, model: Model, samples: Samples) -> tuple[float, Arrays | None]:
    """The seconds of a request for the first sample, and its answer. Raises ProofError for a refusal."""
    row, answer = dict(samples.read([0])), None
    started = time.monotonic()
    if model.exchange == "single":
        outputs = server.infer(model.name, model, row)
        answer = {name: values for name, values in outputs.items() if values is not None}
    else:
        # Two requests, since code that tells the first from the last often expects none to be both.
        is_sequence = model.exchange == "sequence"
        converse(server, model, sequence_of([row, row], 1) if is_sequence else [ConversationMessage(row)])
    return time.monotonic() - started, answer
