"""The doctor's command line, `tritonproof doctor`, which changes nothing."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

if find_spec("msgspec") is None:  # the one package that the modules imported below need
    sys.exit(
        "problem  packages: msgspec is not installed. Run .venv/bin/tox run -e doctor, which installs it."
    )

from tritonproof.base import commands
from tritonproof.base.commands import Parser
from tritonproof.base.errors import InputError, ProofError
from tritonproof.doctor import Finding, gpu, machine, problem, programs, warning
from tritonproof.host.machine import gpu_names
from tritonproof.host.process import ProgramError
from tritonproof.serve.server_spec import ServerSpec, parse_server, with_access
from tritonproof.spec import Device

_NAME_WIDTH = 16
Check = Callable[[], Finding]


def checks(spec: ServerSpec, *, machine_alone: bool = False) -> Iterator[tuple[str, Check]]:
    """The checks for a run with this server, in the order of the output."""
    embedded = spec.kind == "embedded"
    yield "Python", partial(programs.python, embedded=embedded)
    if not machine_alone:
        try:
            device: Device = "cuda" if gpu_names() else "cpu"
        except ImportError:
            device = "cpu"
        yield "packages", partial(programs.packages, embedded=embedded)
        yield "Triton", partial(programs.triton, spec, device)
        yield "perf_analyzer", programs.load_generator
        yield "GPU", gpu.gpu
        yield "formats", partial(gpu.formats, spec, device)
    yield "cores", machine.cores
    yield "other load", machine.other_load
    yield "memory", machine.memory
    yield "shared memory", machine.shared_memory
    yield "disk", machine.disks


def run_check(check: Check) -> Finding:
    """The finding of a check; an error becomes a finding too, as it must not hide the other checks."""
    try:
        return check()
    except ImportError as error:
        return warning(f"cannot be checked, because {error.name} is missing", "see the line `packages`")
    except InputError as error:  # the benchmarks would stop at it too
        return problem(error.what, error.fix)
    except ProofError as error:
        return warning(f"cannot be checked: {error.what}", error.fix or "check it by hand")
    except (OSError, ProgramError, ValueError, LookupError) as error:
        return warning(f"cannot be checked: {type(error).__name__}: {error}", "check it by hand")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings; return 1 if the benchmarks would stop, else 0. Exits with 4 for a bad option."""
    parser = Parser(
        prog=commands.tool_command("doctor"),
        description="Say what could go wrong on this machine, and how to fix it. The exit status is 1 if a "
        "problem would stop the benchmarks.",
    )
    note = "the server to check, given as for the benchmarks (default: the one that the benchmarks start)"
    parser.add_argument("--triton", metavar="SERVER", help=note)
    for flag in ("--triton-ca", "--triton-headers"):
        parser.add_argument(flag, type=Path, metavar="FILE", help="as for the benchmarks")
    note = "check the machine alone, not this Python's packages and what needs them"
    parser.add_argument("--machine", action="store_true", help=note)
    options = parser.parse_args(arguments)
    try:
        spec = with_access(parse_server(options.triton), options.triton_ca, options.triton_headers)
    except InputError as error:
        parser.error(str(error))
    states = []
    for name, check in checks(spec, machine_alone=options.machine):
        finding = run_check(check)
        states.append(finding.state)
        print(f"{finding.state:<7}  {name:<{_NAME_WIDTH}} {finding.text}", flush=True)
        if finding.fix:
            print(f"{'':<{9 + _NAME_WIDTH}} fix: {finding.fix}", flush=True)
    problems, warnings = states.count("problem"), states.count("warning")
    verdict = "the benchmarks would stop" if problems else "the benchmarks can run"
    print(f"\nproblems: {problems}, warnings: {warnings}; {verdict}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
