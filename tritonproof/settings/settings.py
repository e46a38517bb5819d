"""The suite's options. Each is one field of `Settings`: its name is the flag's, its metadata say how to read
its text and which other runs get it, and the sentence below it is its help. The parser, the checks, the
header and the command lines of nodes and other checkouts are derived from the fields. What the values of
several options must not be together is in rules.py."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonproof.base.paths import MODEL_REPOS, RESULTS
from tritonproof.build import baseline_builds
from tritonproof.client.requests import SharedMemory
from tritonproof.host.machine import TF32_OFF, TF32_OVERRIDE
from tritonproof.measure.estimates import CERTIFIABLE
from tritonproof.measure.stopping import MeasuringPlan
from tritonproof.record.speed import Arrivals
from tritonproof.safe_io.files import absolute_path, existing_path
from tritonproof.search.candidates import SearchGoal
from tritonproof.serve.server_spec import ServerSpec, parse_server, with_access
from tritonproof.settings import options, rules, thresholds
from tritonproof.settings.options import Option, PerModel, RemoteModels, Shard, flag_of, option, options_of
from tritonproof.settings.thresholds import Thresholds
from tritonproof.spec import Target
from tritonproof.user_models.labels import LabelOptions
from tritonproof.user_models.onnx_model import OnnxOptions

_BUDGET_OF_BOTH_S = 120.0
"""The default of --point-budget-s for both sides of a comparison, in seconds."""
BASELINE_OPTIONS = ("against", "against_triton")
"""The options that name a baseline, of which a run has at most one: `Settings.baseline`."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options as plain values. `Settings.of(batches="1,8")` reads them from texts."""

    given: frozenset[str]
    """The options that were given, by their fields."""

    target: tuple[Target, ...] = option(
        "selection", "NAME,...", options.read_targets, repeats=True, text=lambda target: target.name
    )
    """The hardware whose cases run, such as a100 or cpu. Default: the targets that -k names (as in -k 'a100
    and onnx'), or else this machine's own hardware."""
    models: tuple[Path, ...] = option(
        "selection",
        "FILE_OR_DIR",
        options.read_paths,
        repeats=True,
        goes_to="nodes checkout",
        conflicts_with="repository",
    )
    """Run the models of a Python file, or of all files in a folder that assign MODELS. Repeatable. Only these
    models run, unless -k or a test's id names another. See docs/model-in-python.md."""
    gpus: int = option("selection", "N", options.read_gpus, 1, goes_to="nodes checkout")
    """Serve each case on N GPUs of one kind, with the instances of --deployment on each. CUDA_VISIBLE_DEVICES
    says which may be used. Default: 1."""
    shard: Shard | None = option("selection", "I/N", options.read_shard)
    """Run only the I-th of N parts of the selected tests, which have about equally many. A case stays whole,
    and every machine computes the same parts by itself. See docs/ci-many-machines.md."""
    fleet: str | None = option("selection", "ADDRESS", lambda _flag, text: text, conflicts_with="repository")
    """Run each test on a machine of a Ray cluster that has its hardware: local (this machine alone), auto
    (the cluster that this machine belongs to), HOST:PORT or ray://HOST:PORT. See docs/fleet.md."""
    convert_only: bool = option("selection", default=False, conflicts_with="repository fleet")
    """Only convert the models of the selected cases, for a later run with the same --model-repos and options.
    If --target names a GPU that is not here, try only the conversions that need no GPU."""

    onnx: Mapping[str, Path] = options.path_by_name_option("own models", "NAME=FILE")
    """Run an ONNX file as a model of this name, or a folder that holds one, such as Hugging Face's exports.
    Repeatable. Only these models run, unless -k or a test's id names another. See docs/onnx-file.md."""
    samples: PerModel[Path] = options.per_model_option("[NAME=]DIR", existing_path)
    """The samples for all models of --onnx or --repository, or for the one that is named. Default: inputs
    that are made up from the shapes and types. See docs/samples.md."""
    labels: PerModel[Path] = options.per_model_option("[NAME=]FILE", existing_path)
    """The samples' labels, by their names: CSV, JSON or NumPy. Needs --metric. See docs/samples.md."""
    metric: PerModel[str] = options.per_model_option("[NAME=]METRIC")
    """The metric that is computed from the labels: top-1, top-5, f1, dice, iou, mse, mae, ssim, cosine, or a
    class of torchmetrics, written as METRIC[@OUTPUT][:KEY=VALUE,...]."""
    floor: PerModel[float] = options.per_model_option("[NAME=]LIMIT", options.read_limit)
    """The lowest value that the metric may have, such as 0.75, or the highest value where lower is better.
    With --repository it has to be given. Default: nearly the framework's score."""
    tolerance: PerModel[float] = options.per_model_option("[NAME=]SHARE", options.read_share)
    """How far outputs may differ from the expected ones, as a share of their spread over the samples, such as
    0.005. For all models of --onnx or --repository, or for the one that is named. See docs/onnx-file.md."""

    triton: ServerSpec = option(
        "server",
        "SERVER",
        lambda flag, text: parse_server(text, flag),
        lambda _before: parse_server(None),
        goes_to="nodes checkout",
    )
    """The server: embedded, local[:PATH], docker[:IMAGE], HOST:PORT (the gRPC port) or grpcs://HOST:PORT (the
    same with TLS). Default: what the variable TRITONPROOF_TRITON names; else local, if tritonserver is on
    PATH; else embedded. See docs/servers.md."""
    triton_ca: Path | None = option("server", "FILE", existing_path)
    """A PEM file of the authorities to trust for --triton grpcs://HOST:PORT. Default: the public ones."""
    triton_headers: Path | None = option("server", "FILE", existing_path)
    """A file with the headers of requests to --triton HOST:PORT, one a line: Authorization: Bearer TOKEN."""
    repository: Path | RemoteModels | None = option("own models", "DIR", options.read_repository)
    """Prove the models of a Triton model repository as they are, in place of the suite's own. Nothing is
    converted, and nothing written into DIR. With --triton HOST:PORT, DIR is the word remote for the models
    that are loaded there, or remote:NAME,... for these alone. See docs/model-repository.md."""
    checkpoint: Mapping[str, Path] = options.path_by_name_option("own models", "MODEL=PATH")
    """A model's weights, a file or folder in NVIDIA's own layout. Repeatable. See docs/real-weights.md."""
    dataset: Mapping[str, Path] = options.path_by_name_option("own models", "MODEL=PATH")
    """A model's evaluation data, such as SQuAD's dev-v1.1.json. Repeatable. See docs/real-weights.md."""
    deployment: Mapping[str, Any] = option(
        "deployment",
        "KEY=VALUE,...",
        options.read_deployment,
        {},
        text=options.deployment_text,
        goes_to="nodes checkout",
        conflicts_with="repository",
    )
    """How the server loads the model, joined by commas: max_batch_size=64, instances=2,
    preferred_batch_sizes=32+64, max_queue_delay_us=100 (microseconds), warmup=false; for ONNX Runtime on a
    GPU cuda_graphs=true, prefer_nhwc=true (convolutions with channels last). Default: the model's."""
    tf32: bool = option(
        "deployment",
        "ON_OR_OFF",
        options.read_tf32,
        lambda _before: os.environ.get(TF32_OVERRIDE) != TF32_OFF,
        text=lambda is_on: "on" if is_on else "off",
        goes_to="nodes checkout",
        conflicts_with="repository",
    )
    """Whether GPUs from Ampere on compute FP32 matrix products and convolutions in TF32, as they did for
    NVIDIA's published FP32 figures: on or off. Default: on, or off if NVIDIA_TF32_OVERRIDE is 0."""
    model_repos: Path = option("deployment", "DIR", absolute_path, MODEL_REPOS, conflicts_with="fleet")
    """The folder in which converted models are built and kept. Default: model_repos."""

    batches: tuple[int, ...] | None = option("speed", "N,...", options.read_batches, goes_to="nodes")
    """The batch sizes of the offline scenario, such as 1,8,32. Default: those of the model for the target."""
    concurrencies: tuple[int, ...] | None = option(
        "speed", "N,...", options.read_concurrencies, goes_to="nodes"
    )
    """The requests in flight of the online scenario, such as 8,16. Default: the model's for the target."""
    request_rates: tuple[float, ...] | None = option("speed", "N,...", options.read_rates, goes_to="nodes")
    """Requests per second of the online scenario, in place of the model's own concurrencies. They are sent by
    a schedule, and a latency counts from the time at which its request was due. Default: none."""
    arrivals: Arrivals | None = option("speed", "KIND", options.one_of(Arrivals), goes_to="nodes")
    """How the requests of a rate follow each other: poisson or constant. Default: poisson. With
    --latency-budget-ms it makes the search look for the highest request rate that keeps the budget."""
    shared_memory: SharedMemory = option(
        "speed",
        "KIND",
        options.one_of(SharedMemory),
        lambda before: "none" if before["triton"].is_remote else "system",
        goes_to="nodes",
    )
    """How the tensors of the load tests get to the server: system or cuda shared memory, or none (in
    messages). Default: system, and none with HOST:PORT."""
    interval_target: float = options.percent_option("speed", MeasuringPlan.interval_target, goes_to="nodes")
    """Stop measuring a load point when the 95 % confidence interval of its throughput is as narrow as ±
    PERCENT. At a request rate, the mean latency takes the place of the throughput. Default: 5."""
    point_budget_s: float | None = option("speed", "SECONDS", options.read_seconds, goes_to="nodes")
    """Stop measuring a load point after SECONDS, not counting the warm-up, even if its interval is wider than
    --interval-target. Default: 3; with --against and --against-triton 120, for both sides."""
    certify: float | None = option("speed", "PERCENT", options.percentile_of(*CERTIFIABLE), goes_to="nodes")
    """Measure load points, and what may win a search, until MLPerf LoadGen's early stopping gives an upper
    bound of its p99 (99) or p99.9 (99.9) with 99 % confidence, however long. See docs/how-it-measures.md."""
    soak: float | None = option(
        "speed", "TIME", options.read_duration, text=lambda seconds: f"{seconds}s", goes_to="nodes"
    )
    """Add test_soak, which keeps each case under load for TIME, such as 10m, loads the model again and again,
    and fails if what the server uses grows without end. See docs/soak.md."""

    against: baseline_builds.AgainstSpec | None = option(
        "comparison",
        "REF_OR_DIR",
        lambda _flag, text: baseline_builds.parse_against(text),
        conflicts_with="fleet",
    )
    """Measure another build in turns with this one, and fail a load test if this one is shown to be slower: a
    git commit, a model repository (or a part of one), or a checkout. With --repository DIR, name the
    repository that DIR will replace; both must then give the same answers. See docs/comparing.md."""
    against_triton: ServerSpec | None = option(
        "comparison", "SERVER", lambda flag, text: parse_server(text, flag), conflicts_with="against fleet"
    )
    """Measure the same build on another Triton in turns, and fail a load test if --triton's is shown to be
    slower: embedded, local[:PATH] or docker[:IMAGE]; or HOST:PORT, if --triton is one too. With --repository
    both must give the same answers. See docs/comparing.md."""
    allow_slowdown: float = options.percent_option("comparison", 0.03, needs=" ".join(BASELINE_OPTIONS))
    """The slow-down that --against and --against-triton allow, in percent. Default: 3."""
    thresholds: Thresholds = option(
        "comparison",
        "FILE",
        thresholds.read_thresholds,
        Thresholds(),
        text=lambda requirements: str(requirements.file),
        goes_to="nodes",
    )
    """A TOML file of limits for single cases: of metrics, slow-downs and latencies. See docs/ci.md."""

    latency_budget_ms: float | None = option("search", "MS", options.read_milliseconds, goes_to="nodes")
    """Add test_search, which searches for the configuration with the highest throughput whose latency stays
    within MS, or with --arrivals for the highest request rate. What --deployment, --batches and
    --concurrencies give stays fixed. See docs/comparing.md."""
    latency_percentile: float = option(
        "search", "PERCENT", options.percentile_of(90, 95, 99), 99, goes_to="nodes", needs="latency_budget_ms"
    )
    """The percentile of the latencies that has to keep --latency-budget-ms: 90, 95 or 99. Default: 99."""

    results: Path = option("output", "DIR", absolute_path, RESULTS)
    """The folder for records. Default: reports/results."""
    answers: Path | None = option("output", "DIR", absolute_path, goes_to="nodes")
    """Compare answers with those recorded in DIR, one file for each model. See docs/how-it-measures.md."""
    record_answers: bool = option("output", default=False, goes_to="nodes", needs="answers")
    """Record each model's answers in the folder of --answers, with which later runs compare theirs."""
    price_per_hour: float | None = option("output", "AMOUNT", options.read_price, goes_to="nodes")
    """The price of an hour of this machine: tables then give the cost of a million correct inferences."""
    summary: Path | None = option("output", "FILE", absolute_path)
    """Write what failed and the tables of this run to a markdown file. Default: in GitHub Actions they are
    appended to the file that GITHUB_STEP_SUMMARY names."""
    history: Path | None = option("output", "DIR", absolute_path)
    """The folder of the history: a row for each measurement, in which `report trend` finds lasting changes.
    Default: reports/history, or DIR/history with --results DIR."""

    @classmethod
    def of(cls, **texts: Any) -> "Settings":
        """The settings of options with these texts, by field, and of defaults for all others. Raises an
        InputError that names the option, its text and what to write instead."""
        if unknown := texts.keys() - options_of(cls).keys():
            raise TypeError(f"no such options: {', '.join(sorted(unknown))}")
        # An option that is not given is None, False or no texts; an empty text is given.
        given = frozenset(name for name, text in texts.items() if text or text == "")
        rules.check_given(given, options_of(cls))
        values: dict[str, Any] = {}
        for name, option_ in options_of(cls).items():
            if option_.repeats:
                values[name] = option_.read(flag_of(name), texts.get(name) or ())
            elif name not in given:
                values[name] = option_.default(values) if callable(option_.default) else option_.default
            else:
                values[name] = True if option_.metavar is None else option_.read(flag_of(name), texts[name])
        for name in ("triton", "against_triton"):
            if values[name] is not None:
                values[name] = with_access(values[name], values["triton_ca"], values["triton_headers"])
        settings = cls(given=given, **values)
        rules.check_values(settings)
        return settings

    def plan(self, *, compared: bool = False) -> MeasuringPlan:
        """How precisely to measure a load point, by itself or `compared` with a baseline, and how long that
        may take."""
        default_s = _BUDGET_OF_BOTH_S if compared else MeasuringPlan.point_budget_s
        return MeasuringPlan(self.interval_target, self.point_budget_s or default_s, self.certify)

    @property
    def baseline(self) -> baseline_builds.AgainstSpec | ServerSpec | None:
        """The baseline (a build, a repository or a Triton), whose text reports show; None without one."""
        return self.against or self.against_triton

    @property
    def compares_repositories(self) -> bool:
        """Whether each model of --repository is compared with another repository's, or on another Triton."""
        return self.repository is not None and self.baseline is not None

    @property
    def goal(self) -> SearchGoal | None:
        """The latency budget to search within; None for no search."""
        if self.latency_budget_ms is None:
            return None
        return SearchGoal(self.latency_budget_ms, int(self.latency_percentile), self.arrivals)

    @property
    def onnx_options(self) -> dict[str, OnnxOptions]:
        """The options of each ONNX file, by its model's name; raises InputError."""
        if self.repository is not None:
            return {}  # --samples and the like are then for the models of the repository
        samples, tolerances = self.samples.by_model(self.onnx), self.tolerance.by_model(self.onnx)
        labels = self.labels_of(self.onnx)
        return {
            name: OnnxOptions(file, samples.get(name), labels.get(name), tolerances.get(name))
            for name, file in self.onnx.items()
        }

    def labels_of(self, models: Collection[str]) -> dict[str, LabelOptions]:
        """The label options of each of these models that has labels; raises InputError if any is missing."""
        rules.check_labels(self, models)
        labels, metrics = self.labels.by_model(models), self.metric.by_model(models)
        floors = self.floor.by_model(models)
        return {name: LabelOptions(file, metrics[name], floors.get(name)) for name, file in labels.items()}

    def command_line(self, recipient: str = "", model: str | None = None) -> list[str]:
        """The given options as a command line: all, or those that are passed to the `recipient`, which is
        "nodes" of a fleet or another "checkout"; of values per model only those of `model`."""
        words: list[str] = []
        for name, option_ in options_of(type(self)).items():
            if name in self.given and (not recipient or recipient in option_.goes_to.split()):
                for text in self._texts(name, option_, model):
                    words += [flag_of(name), text] if text else [flag_of(name)]
        return words

    def _texts(self, name: str, option_: Option, model: str | None) -> list[str]:
        """The texts that give an option its value; an empty one for an option without a value."""
        value = getattr(self, name)
        if not option_.repeats:
            return ["" if option_.metavar is None else option_.text(value)]
        if isinstance(value, tuple):
            return [option_.text(part) for part in value]
        texts = []
        for owner, part in (value.values if isinstance(value, PerModel) else value).items():
            if model in (None, owner) or (owner == "" and model in self.onnx):
                texts.append(f"{owner}={option_.text(part)}" if owner else option_.text(part))
        return texts
