"""The serving formats. A file in this folder defines those of one converter; a new format needs no more."""

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, get_type_hints

import msgspec

from tritonproof.base.errors import InputError
from tritonproof.base.paths import RUNTIMES
from tritonproof.base.sanitize import excerpt
from tritonproof.safe_io.files import check_fields, modules_in
from tritonproof.spec import Device, Format, Precision


@functools.cache
def all_formats() -> tuple[Format, ...]:
    """Every format of this folder, in the order of their names. Raises InputError for one that is broken."""
    formats: dict[str, Format] = {}
    for module, source in modules_in(__name__, __path__):
        for value in vars(module).values():
            if isinstance(value, Format):
                _check(value, source)
                # One value may come twice, as modules import from each other.
                if formats.setdefault(value.name, value) is not value:
                    what = f"there is a format {value.name} already"
                    raise InputError(what, where=source, fix="give it a name of its own")
    return tuple(formats[name] for name in sorted(formats))


def _check(format_: Format, where: str) -> None:
    """Raise InputError for a field of a wrong type, and for tolerances or a runtime that are missing."""
    precisions = Mapping[Device, tuple[Precision, ...]]
    name = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\Z")]
    check_fields(format_, {**get_type_hints(Format), "name": name, "precisions": precisions}, where)
    used = {precision for values in format_.precisions.values() for precision in values}
    if lacking := sorted(used - format_.tolerances.keys()):
        what = f"the tolerances of the format {format_.name} lack {', '.join(lacking)}"
        raise InputError(what, where=where, fix="give each of its precisions a Tolerance")
    if not (RUNTIMES / format_.runtime.file).is_file():
        what = f"there is no runtime {excerpt(format_.runtime.file)!r} of the format {format_.name}"
        raise InputError(what, where=where, fix=f"name a file of {RUNTIMES}")


def variants_on(device: Device) -> Iterator[tuple[Format, str | None, str]]:
    """Every combination of format, accelerator (None for none) and precision on a kind of device."""
    for format_ in all_formats():
        for accelerator in (None, *format_.accelerators.get(device, ())):
            for precision in format_.precisions.get(device, ()):
                yield format_, accelerator, precision


def variant_name(format_: Format, accelerator: str | None, precision: str) -> str:
    """A variant's name in ids and lists of published cases: `format[-accelerator]-precision`."""
    return "-".join(filter(None, (format_.name, accelerator, precision)))
