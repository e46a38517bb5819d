"""The serving formats. Each file in this folder defines those of one converter, as values of Format; adding a
file is all that a new format needs."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator

from tritonproof.spec import Device, Format


@functools.cache
def all_formats() -> tuple[Format, ...]:
    """Every format of this folder, in the order of their names."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    values = (value for module in modules for value in vars(module).values() if isinstance(value, Format))
    formats: dict[str, Format] = {}
    for value in values:  # one value may come twice, as modules import from each other
        assert formats.setdefault(value.name, value) is value, f"two formats have the name {value.name}"
    return tuple(formats[name] for name in sorted(formats))


def variants_on(device: Device) -> Iterator[tuple[Format, str | None, str]]:
    """Every combination of format, accelerator (None for none) and precision on a kind of device."""
    for format_ in all_formats():
        for accelerator in (None, *format_.accelerators.get(device, ())):
            for precision in format_.precisions.get(device, ()):
                yield format_, accelerator, precision


def variant_name(format_: Format, accelerator: str | None, precision: str) -> str:
    """A variant's name in ids and lists of published cases: `format[-accelerator]-precision`."""
    return "-".join(filter(None, (format_.name, accelerator, precision)))
