"""The serving formats: each file in this folder defines those of one converter, values of Format, and a new
one needs no other change."""

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
    for value in values:  # a module may import another's
        assert formats.setdefault(value.name, value) is value, f"two formats have the name {value.name}"
    return tuple(formats[name] for name in sorted(formats))


def variants_on(device: Device) -> Iterator[tuple[Format, str | None, str]]:
    """Every format with each accelerator (None for none) and precision that it has on a kind of device."""
    for format_ in all_formats():
        for accelerator in (None, *format_.accelerators.get(device, ())):
            for precision in format_.precisions.get(device, ()):
                yield format_, accelerator, precision


def variant_name(format_: Format, accelerator: str | None, precision: str) -> str:
    """A variant's name in ids and lists of published cases: `format[-accelerator]-precision`."""
    return "-".join(filter(None, (format_.name, accelerator, precision)))
