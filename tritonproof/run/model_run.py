"""What the cases of a model share, such as its weights, and what all cases of a suite's run share."""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritonproof.accuracy import stages
from tritonproof.accuracy.precision_cost import PrecisionCost, measure_cost
from tritonproof.base.errors import ProofError
from tritonproof.efficiency import worker
from tritonproof.frameworks import count_operations
from tritonproof.host import locks, run_origin
from tritonproof.record import fields, speed
from tritonproof.run.available_models import AvailableModels
from tritonproof.run.once import forget, once
from tritonproof.run.progress import Progress, lines_to
from tritonproof.serve.server import Server
from tritonproof.settings.case_settings import model_deployment, samples_of
from tritonproof.settings.settings import Settings
from tritonproof.spec import Case, FrameworkModel, Model, NetworkModel, Samples, Target


@dataclass(frozen=True)
class SuiteRun:
    """What all cases of a suite's run share: what the user asked for, and what was measured for all."""

    settings: Settings
    models: AvailableModels = field(default_factory=lambda: AvailableModels(()))
    """The models that a run may select; those of --repository may call each other."""
    progress: Progress = field(default_factory=lambda: Progress(lines_to(os.dup(2))))
    selected_points: Mapping[str, Sequence[speed.LoadPoint]] | None = None
    """The load points to measure of each case, by its id; None for all that the settings ask for."""
    identity: run_origin.RunIdentity = field(default_factory=run_origin.own_run)
    peaks: dict[worker.PeakKind, fields.Estimate | ProofError] = field(default_factory=dict)
    """The machine's peaks measured so far, or the errors."""

    def measure_peak(self, kind: worker.PeakKind) -> fields.Estimate | ProofError:
        """The machine's peak, or the error, measured once, while nothing else runs on the machine. Measuring
        takes gigabytes of a GPU's memory, so a suite does it before its first server starts."""
        if kind not in self.peaks:
            on_wait = functools.partial(self.progress.say, "the machine's peak: wait for the machine")
            with locks.hold_machine(exclusive=True, on_wait=on_wait):
                self.progress.say(f"the machine's peak: measure {kind.precision.upper()}")
                try:
                    self.peaks[kind] = worker.measure_peak_per_s(kind)
                except ProofError as error:
                    self.peaks[kind] = error.with_traceback(None)  # a traceback would keep a model in memory
        return self.peaks[kind]


@dataclass
class Reference:
    """A case of a model's reference format on its server, and its fastest load point."""

    case: Case
    build_digest: str
    server: Server
    best: speed.PointResult
    is_cold: bool = True
    """Whether no other case has been compared with it since it was loaded."""


@dataclass(eq=False)
class ModelRun(contextlib.AbstractContextManager["ModelRun"]):
    """What the cases of a model on a target share, for the length of a `with` block."""

    model: Model
    target: Target
    suite_run: SuiteRun
    references: dict[str, Reference | None] = field(default_factory=dict, init=False)
    """The references by the case's id; None if no right record has a fastest point."""
    precision_costs: dict[str, PrecisionCost | None] = field(default_factory=dict, init=False)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)
    """What ends with the block."""

    def __exit__(self, *error: Any) -> None:
        self.stack.__exit__(*error)

    def hold_machine(self, *, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        """Hold the machine for a block: exclusively to measure speed, else shared. Progress shows a wait."""
        on_wait = functools.partial(self.say, "wait for the machine")
        return locks.hold_machine(exclusive=exclusive, on_wait=on_wait)

    def say(self, activity: str, detail: str = "") -> None:
        """Show in the progress what is done once for all cases of the model."""
        self.suite_run.progress.say(f"{self.model.name}: {activity}", detail)

    @property
    def network_model(self) -> NetworkModel:
        """The model, one that the suite converts; only such a model has the properties below."""
        assert isinstance(self.model, NetworkModel)
        return self.model

    @once
    def framework_model_on_cpu(self) -> FrameworkModel:
        """The framework's model to convert, with weights of --checkpoint, its own, or seeded random ones."""
        with self.hold_machine(exclusive=False):
            self.say("load weights")
            return self.network_model.load_weights(self.suite_run.settings.checkpoint.get(self.model.name))

    @once
    def framework_model_on_target(self) -> FrameworkModel:
        """The framework's model that converted models are compared with, on the target's kind of device."""
        with self.hold_machine(exclusive=False):
            return stages.framework_model_on(
                self.target.device, self.network_model, self.framework_model_on_cpu
            )

    def leave_gpu(self) -> None:
        """Free the GPU memory of the framework's model, which moves there again on use."""
        forget(self, "framework_model_on_target")

    @once
    def samples(self) -> Samples:
        """The evaluation split of --dataset, or the model's own."""
        with self.hold_machine(exclusive=False):
            return samples_of(self.network_model, "evaluation", self.suite_run.settings)

    @property
    def batch(self) -> int:
        """The rows of a batch in process: enough for every core, and small beside the weights."""
        deployment = model_deployment(self.model, self.target, self.suite_run.settings)
        return min(32, deployment.max_batch_size)

    @once
    def framework_answers(self) -> stages.StageAnswers:
        """The framework's answers to the whole evaluation set."""
        with self.hold_machine(exclusive=False):
            network = self.framework_model_on_target.network
            infer: Callable[[Any], Any] = functools.partial(self.network_model.infer, network)
            say = functools.partial(self.say, "evaluate by the framework")
            return stages.evaluate_in_process("framework", self.model, infer, self.samples, self.batch, say)

    def precision_cost(self, precision: str) -> PrecisionCost | None:
        """What a precision costs the model, in any format; None if the framework has no such network."""
        if precision not in self.precision_costs:
            self.say(f"measure what {precision.upper()} costs")
            training = functools.partial(samples_of, self.network_model, "training", self.suite_run.settings)
            with self.hold_machine(exclusive=False):
                model, samples = self.framework_model_on_target, self.samples
                cost = measure_cost(self.network_model, precision, model, samples, training, self.batch)
            self.precision_costs[precision] = cost
        return self.precision_costs[precision]

    @once
    def flops_per_inference(self) -> float | None:
        """Floating-point operations of one inference; None if the framework cannot count them."""
        network = self.framework_model_on_cpu.network
        return count_operations(self.network_model, network, self.samples.read([0]))
