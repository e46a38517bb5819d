"""What an option is, and how its text is read. A reader takes the flag and the text; it returns the value, or
raises an InputError that names flag and text and says what to write instead."""

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar, get_args

import msgspec
from msgspec import Meta

from tritonproof.base.disk import is_plain
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.host.machine import TF32_OFF, TF32_OVERRIDE
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.safe_io.files import absolute_path, as_given, existing_path
from tritonproof.spec import Target
from tritonproof.user_models.model_repository import check_name

Value = TypeVar("Value")
Read = Callable[[str, str], Any]

_Rows = Annotated[int, Meta(ge=1, le=65_536)]
"""The rows of a batch, at most some hundred times the published ones; they fit into one request."""
_InFlight = Annotated[int, Meta(ge=1, le=10_000)]
"""The requests in flight, each with a thread of the load generator."""
_Count = Annotated[int, Meta(ge=1, le=1_000)]
_SECONDS_OF = {"s": 1.0, "m": 60.0, "h": 3600.0}


def text_of(value: Any) -> str:
    """The text from which a reader reads a value; the parts of a tuple are joined by commas."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclasses.dataclass(frozen=True)
class Option:
    """The properties of an option except its name and its help, the sentence below its field."""

    group: str
    """The option's heading in --help."""
    metavar: str | None = None
    """The value's placeholder in --help; None for an option without a value."""
    read: Any = None
    """Reads the value from the flag and the text, or for a repeatable option from all texts, perhaps none."""
    default: Any = None
    """The value of an option that is not given, or a function that takes the values of earlier options."""
    repeats: bool = False
    text: Callable[[Any], str] = text_of
    """Writes the text of the value, or of one of the values of a repeatable option."""
    goes_to: str = ""
    """Who else gets the option: "nodes" of a fleet, another "checkout" that builds the same models."""
    conflicts_with: str = ""
    """The fields of the options with which this one cannot be combined."""
    needs: str = ""
    """The fields of options, one of which has to be given with this one."""


def option(*arguments: Any, **more: Any) -> Any:
    """A field of `Settings` that is an `Option`."""
    return dataclasses.field(metadata={"option": Option(*arguments, **more)})


def options_of(settings_type: type) -> Mapping[str, Option]:
    """The options of a class of settings, by field."""
    fields = dataclasses.fields(settings_type)
    return {field.name: field.metadata["option"] for field in fields if "option" in field.metadata}


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def sentences(settings_type: type) -> Mapping[str, str]:
    """The help of the options of a class of settings, by field: the sentence below each field."""
    help_by_field = {}
    for class_ in reversed(settings_type.__mro__[:-1]):
        definition: Any = ast.parse(inspect.getsource(class_)).body[0]
        for statement, below in itertools.pairwise(definition.body):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    help_by_field[name] = " ".join(text.split())
    return help_by_field


def add_options(parser: Any, settings_type: type) -> None:
    """Add the options, whose texts `Settings.of` takes, to pytest's parser, after -k and -m in --help."""
    help_by_field = sentences(settings_type)
    last_group = "general"
    for field, option_ in options_of(settings_type).items():
        group_name = f"tritonproof: {option_.group}"
        group = parser.getgroup(group_name, after=last_group)
        last_group = group_name
        assert field in help_by_field, f"write a sentence below the field {field}: it is the option's help"
        text = help_by_field[field].replace("%", "%%")  # argparse formats it
        if option_.metavar is None:
            group.addoption(flag_of(field), action="store_true", help=text)
        else:
            action = {"action": "append", "default": []} if option_.repeats else {}
            group.addoption(flag_of(field), metavar=option_.metavar, help=text, **action)


def _refused(flag: str, text: str, problem: str, fix: str) -> InputError:
    return InputError(problem, where=as_given(flag, text), fix=fix)


def _reader(convert: Callable[[str], Any], expected: str, example: str) -> Read:
    """A reader that applies `convert`, and raises InputError for a text for which that raises ValueError."""

    def read(flag: str, text: str) -> Any:
        try:
            return convert(text.strip())
        except ValueError:
            raise _refused(flag, text, f"not {expected}", f"write {as_given(flag, example)}") from None

    return read


def _number(kind: Any, expected: str, example: str, *, several: bool = False) -> Read:
    """A reader of a number within the bounds of `kind`, or of `several`, by commas, sorted and distinct."""

    def convert(text: str) -> Any:
        parts = text.split(",") if several else [text]
        values = [msgspec.convert(part.strip(), kind, strict=False) for part in parts]
        return tuple(sorted(set(values))) if several else values[0]

    return _reader(convert, expected, example)


def _fraction(kind: Any, expected: str, example: str) -> Read:
    """A reader of a number that may be written as a percentage."""

    def convert(text: str) -> Any:
        return msgspec.convert(float(text.removesuffix("%")) / (100 if text.endswith("%") else 1), kind)

    return _reader(convert, expected, example)


def _above_0(below: float) -> Any:
    return Annotated[float, Meta(gt=0, lt=below)]


def _percent(text: str) -> float:
    return msgspec.convert(float(text.removesuffix("%")), _above_0(100)) / 100


def percent_option(group: str, default: float, **more: str) -> Any:
    """An option whose text is a percentage and whose value is a fraction."""
    read = _reader(_percent, "a percentage between 0 and 100", "3")
    return option(group, "PERCENT", read, default, text=lambda fraction: f"{100 * fraction:.15g}", **more)


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of the equal parts of a run."""

    number: int
    """Which of the parts it is, from 1 to `count`."""
    count: int

    def __str__(self) -> str:
        return f"{self.number} of {self.count}"


def _shard(text: str) -> Shard:
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count <= 1_000:
        raise ValueError
    return Shard(number, count)


def _duration(text: str) -> float:
    duration_s = float(text[:-1]) * _SECONDS_OF.get(text[-1:].lower(), math.nan)
    # In a shorter time, starting a pass would take longer than the pass.
    return msgspec.convert(duration_s, Annotated[float, Meta(ge=30, le=7 * 86_400)])


_Rate = Annotated[float, Meta(ge=0.01, le=1e5)]
read_seconds = _number(_above_0(86_400), "a time in seconds", "4")
read_milliseconds = _number(_above_0(86_400_000), "a latency in milliseconds", "7")
read_price = _number(_above_0(1e9), "an amount above 0, without a currency", "1.20")
read_limit = _fraction(Annotated[float, Meta(ge=0, lt=1e300)], "a limit of a metric", "0.75")
read_share = _fraction(_above_0(1), "a share between 0 and 1", "0.005")
read_batches = _number(_Rows, "whole numbers from 1 to 65,536", "1,4,16", several=True)
read_concurrencies = _number(_InFlight, "whole numbers from 1 to 10,000", "8,16", several=True)
read_rates = _number(_Rate, "a list of requests per second, 0.01 to 100,000", "50,100", several=True)
read_gpus = _number(_Count, "a number of GPUs", "2")
read_shard = _reader(_shard, "a shard, which are 1/N to N/N with N up to 1,000", "2/4 for the second of four")
read_duration = _reader(_duration, "a time from 30s to 168h, with its unit (s, m or h)", "10m")


def one_of(kind: Any) -> Read:
    """Reads one of the values of a Literal."""
    names = get_args(kind)
    return _reader(lambda text: names[names.index(text)], "a value of this option", " or ".join(names))


def percentile_of(*allowed: float) -> Read:
    """Reads one of several percentiles, written as 99, p99 or 99%."""
    return _reader(
        lambda text: allowed[allowed.index(float(text.lower().removeprefix("p").removesuffix("%")))],
        "a percentile that this option takes",
        " or ".join(f"{number:g}" for number in allowed),
    )


@dataclasses.dataclass(frozen=True)
class RemoteModels:
    """The models that are loaded on a server which somebody else runs."""

    names: tuple[str, ...] = ()
    """The models to prove; empty for all that the server lists."""

    def __str__(self) -> str:
        return f"remote:{','.join(self.names)}" if self.names else "remote"


def read_repository(flag: str, text: str) -> Path | RemoteModels:
    """A folder of models, or `remote[:NAME,...]` for models loaded on a server that somebody else runs."""
    word, colon, names = text.partition(":")
    if word != "remote":
        return absolute_path(flag, text)
    model_names = tuple(dict.fromkeys(map(str.strip, names.split(",")))) if colon else ()
    for name in model_names:
        check_name(name, f"{flag} {excerpt(text)}")
    return RemoteModels(model_names)


def read_targets(flag: str, texts: Sequence[str]) -> tuple[Target, ...]:
    """The targets that comma-separated lists name, in the suite's order."""
    targets_by_name = {target.name: target for target in EVERY_TARGET}
    names = [part.strip().lower() for text in texts for part in text.split(",")]
    for name in names:
        if name not in targets_by_name:
            raise _refused(flag, name, "unknown target", f"use {', '.join(targets_by_name)}")
    return tuple(target for name, target in targets_by_name.items() if name in names)


def read_paths(flag: str, texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(existing_path(flag, text) for text in texts)


@dataclasses.dataclass(frozen=True)
class PerModel(Generic[Value]):
    """The values of a repeatable option `[NAME=]VALUE`, for one model or for all."""

    flag: str
    values: Mapping[str, Value]
    """The values by the model's name, which is empty for all models."""

    def by_model(self, models: Collection[str]) -> dict[str, Value]:
        """The value of each model: its own, else that for all. Raises InputError for an unknown model."""
        for name, value in self.values.items():
            if not models or name not in ("", *models):
                allowed = ", ".join(models) or "none: give --onnx NAME=FILE or --repository DIR"
                what = f"there is no model {excerpt(name)}" if name else "there is no model for this option"
                where = f"{self.flag} {excerpt(f'{name}={value}' if name else str(value))}"
                raise InputError(what, where=where, fix=f"name one of these: {allowed}")
        for_all = dict.fromkeys(models, self.values[""]) if "" in self.values else {}
        return for_all | {name: value for name, value in self.values.items() if name}


def _by_name(flag: str, texts: Sequence[str], read: Read, *, may_be_for_all: bool) -> dict[str, Any]:
    """The values of texts `NAME=VALUE` by name. A value for all models, if it `may_be_for_all`, has an empty
    name, and its text may be a path with an equals sign, or a metric with settings."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if may_be_for_all and not (equals and is_plain(name) and ":" not in name and not Path(text).exists()):
            name, value = "", text
        elif not (name and equals):
            raise _refused(flag, text, "not a name and a path", f"write {flag} NAME=PATH")
        if name in values:
            raise _refused(flag, text, f"a second value for {excerpt(name) or 'all models'}", "name others")
        values[name] = read(f"{flag} {excerpt(name)}=" if name else flag, value)
    return values


def per_model_option(metavar: str, read: Read = lambda _flag, text: text) -> Any:
    """A field that is a repeatable option `[NAME=]VALUE`, for models of --onnx or --repository."""

    def read_all(flag: str, texts: Sequence[str]) -> PerModel[Any]:
        return PerModel(flag, _by_name(flag, texts, read, may_be_for_all=True))

    return option("own models", metavar, read_all, repeats=True, goes_to="nodes checkout")


def path_by_name_option(group: str, metavar: str) -> Any:
    """A field that is a repeatable option `NAME=PATH`, for models that are converted."""
    read = functools.partial(_by_name, read=existing_path, may_be_for_all=False)
    return option(group, metavar, read, repeats=True, goes_to="nodes checkout", conflicts_with="repository")


class _Changes(TypedDict, total=False):
    """The fields of Deployment that --deployment changes. TF32, which some cases ignore, has an option."""

    max_batch_size: _Rows
    instances: _Count
    preferred_batch_sizes: tuple[_Rows, ...]
    max_queue_delay_us: Annotated[int, Meta(ge=0, le=60_000_000)]  # a queue of a minute is no serving
    cuda_graphs: bool
    warmup: bool
    prefer_nhwc: bool


def read_deployment(flag: str, text: str) -> Mapping[str, Any]:
    """The fields of Deployment that `KEY=VALUE,...` replaces, by their names."""
    texts: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key not in _Changes.__annotations__ or key in texts:
            fix = f"use KEY=VALUE of {', '.join(_Changes.__annotations__)}, each once"
            raise _refused(flag, text, f"unknown or repeated setting {excerpt(key)!r}", fix)
        texts[key] = value.split("+") if key == "preferred_batch_sizes" else value
    try:
        return msgspec.convert(texts, _Changes, strict=False)
    except msgspec.ValidationError as error:
        fix = "write true or false, whole numbers, or several as 16+32"
        raise _refused(flag, text, str(error), fix) from None


def deployment_text(changes: Mapping[str, Any]) -> str:
    """The text from which `read_deployment` reads these settings."""
    texts = {
        key: "+".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
        for key, value in changes.items()
    }
    return ",".join(f"{key}={text}" for key, text in texts.items())


def read_tf32(flag: str, text: str) -> bool:
    """Whether TF32 is on. Raises InputError if it is, but the environment turns it off."""
    is_on = bool(one_of(Literal["on", "off"])(flag, text) == "on")
    if is_on and os.environ.get(TF32_OVERRIDE) == TF32_OFF:
        what = "TF32 is asked for, and the environment turns it off in all of NVIDIA's libraries"
        where = f"{flag} {text}, {TF32_OVERRIDE}={TF32_OFF}"
        raise InputError(what, where=where, fix=f"leave {flag} out, or unset {TF32_OVERRIDE}")
    return is_on
