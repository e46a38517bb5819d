"""What was served, on what and how: the settings beside a case's tables, by the names that NVIDIA published."""

from collections.abc import Callable, Mapping, Sequence

from reports.published.names import names_of
from reports.record.quantities import DURATION, LATENCY, SCORE
from reports.record.schema import Record
from reports.tables.points import loads_of
from reports.words.labels import backend_accelerator, device, image_resolution, sequence_length
from reports.words.markdown import markdown, text
from reports.words.origins import measured_text
from reports.words.rightness import accuracy_sentence, main_score, unscored
from reports.words.shown import Shown, name_of

_BATCHER = ("Triton Max Queue Delay", "Triton Preferred Batch Sizes")
"""What the dynamic batcher goes by; BERT's tables leave it out, as only its offline scenario was published."""

_F1 = "SQuAD v1.1 F1 Score"


def parameters_table(record: Shown, scenario: str) -> str:
    """The settings that hold for every row of the scenario, `offline` or `online`.

    A model whose source has all settings in one table has them here, and none in `configuration_list`.
    """
    published = names_of(record.case.model, scenario)
    names = published.parameters or published.configuration
    if scenario == "online":
        names += tuple(name for name in _BATCHER if name not in names)
    rows = _settings(record, scenario, names)
    return markdown(("Parameter Name", "Parameter Value"), rows, "ll")


def configuration_list(record: Shown, scenario: str) -> str:
    """What was served, on what and by what, what its start took, and how right it is, as a markdown list."""
    serving, deployment = record.serving, record.deployment
    options = (
        ("CUDA graphs", deployment.cuda_graphs),
        ("warm-up", deployment.warmup),
        ("FP32 in TF32", deployment.tf32 is True),
        ("FP32 without TF32", deployment.tf32 is False),
    )
    published = names_of(record.case.model, scenario)
    lines = [
        ("Case", f"`{name_of(record)}`"),
        *(_settings(record, scenario, published.configuration) if published.parameters else ()),
        ("Options", ", ".join(name for name, on in options if on)),
        (
            "Served by",
            f"{serving.kind} server, Triton {serving.triton}, {serving.backend} backend, "
            f"shared memory: {serving.shared_memory}"
            if serving
            else "",
        ),
        ("Start", _start(record, scenario)),
        ("Accuracy", accuracy_sentence(record)),
        ("Requests", record.build.requests),
        ("Measured", "; ".join(filter(None, (record.updated.partition("T")[0], measured_text([record]))))),
    ]
    return "\n".join(f"- {name}: {text(value)}" for name, value in lines if value)


def _settings(record: Shown, scenario: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Name and value of the published settings that apply to the case."""
    found = []
    for name in names:
        value = _VALUES[name.lower()](record, scenario, frozenset(map(str.lower, names)))
        if value:
            found.append((_shown(record, name), value))
    return found


def _shown(record: Record, name: str) -> str:
    """The published name, unless it would not be true of this case."""
    if name == "GPU" and record.case.target == "cpu":
        return "CPU"
    if name == _F1 and record.case.model.endswith("-micro"):
        return "F1 Score"  # on data of its own
    return name


Value = Callable[[Record, str, frozenset[str]], str]
"""A record, the scenario and the names beside it, in lower case, to a setting; empty where it does not apply."""


def _backend(record: Record, _scenario: str, beside: frozenset[str]) -> str:
    is_python = record.serving is not None and record.serving.backend == "python"
    is_bound = record.case.format == "tf-trt" and "model binding" in beside
    engine = "TensorFlow" if is_bound else record.build.engine
    return engine + (", in Triton's Python backend" if is_python else "")


def _model_format(record: Record, _scenario: str, beside: frozenset[str]) -> str:
    """The format as a reader knows it, less what the settings beside it say."""
    if record.case.format == "tf-trt" and "model binding" in beside:
        return "TensorFlow SavedModel"
    if _variant(record) and "conversion variant" in beside:
        return "TorchScript"
    return record.build.format


def _variant(record: Record) -> str:
    return {"ts-trace": "Trace", "ts-script": "Script"}.get(record.case.format, "")


def _delay(record: Record, scenario: str, _beside: frozenset[str]) -> str:
    return f"{record.deployment.max_queue_delay_us} µs" if scenario == "online" else "-"


def _preferred(record: Record, scenario: str, _beside: frozenset[str]) -> str:
    sizes = " ".join(map(str, record.deployment.preferred_batch_sizes)) or "none"
    return sizes if scenario == "online" else "-"


def _cuda_graphs(record: Record, _scenario: str, _beside: frozenset[str]) -> str:
    if record.case.format != "trt":
        return ""
    return "Enabled" if record.deployment.cuda_graphs else "Disabled"


def _f1(record: Record, _scenario: str, _beside: frozenset[str]) -> str:
    score = main_score(record)
    return unscored(record) if score is None else SCORE.cell(score.served)


_VALUES: Mapping[str, Value] = {
    "gpu": lambda record, *_: device(record),
    "backend": _backend,
    "backend accelerator": lambda record, *_: backend_accelerator(record),
    "accelerator precision": lambda record, *_: (
        record.case.precision.upper() if record.case.accelerator == "trt" else "-"
    ),
    "precision": lambda record, *_: record.case.precision.upper(),
    "model binding": lambda record, *_: "TF-TRT" if record.case.format == "tf-trt" else "",
    "model format": _model_format,
    "conversion variant": lambda record, *_: _variant(record),
    "image resolution": lambda record, *_: image_resolution(record),
    "max batch size": lambda record, *_: str(record.deployment.max_batch_size),
    "max seq length": lambda record, *_: sequence_length(record),
    "number of model instances": lambda record, *_: str(record.deployment.instances),
    "nvidia tensorrt capture cuda graph": _cuda_graphs,
    _F1.lower(): _f1,
    "triton max queue delay": _delay,
    "triton preferred batch sizes": _preferred,
}
"""How a setting is told, by its name in `reports/published/names`, in lower case."""


def _start(record: Shown, scenario: str) -> str:
    """Seconds until the first answer, and until latencies were stationary under load."""
    start = next((one for one in record.starts if one.scenario == scenario), None)
    if start is None:
        return ""
    server = f"server {DURATION.text(start.server_s)}, " if start.server_s is not None else ""
    warm_ups = [load.warm_up_s for load in loads_of(record, scenario)]
    longest = f", warm-up under load {DURATION.text(max(warm_ups))} at most" if warm_ups else ""
    first = LATENCY.text(start.first_request_ms)
    return f"{server}model load {DURATION.text(start.load_s)}, first request {first}{longest}"
