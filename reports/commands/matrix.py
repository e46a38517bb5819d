"""`python -m reports matrix`: the jobs of continuous integration that run the suite on many machines."""

import argparse
import shlex

from reports.commands import Commands, UsageError

_TARGETS = "cpu,a30,a40,a100,v100,t4"
"""The hardware whose figures NVIDIA published, and a CPU."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    jobs = commands.add_parser(
        "matrix",
        help="print CI jobs for GitHub or GitLab that run the suite on many machines",
        description="Print one job for each kind of hardware, or for each shard of its tests: for GitHub a matrix as one "
        "line of JSON, for GitLab a child pipeline as YAML. docs/ci.md has both workflows.",
    )
    jobs.add_argument(
        "--format",
        choices=("github", "gitlab"),
        default="github",
        help="the CI service (default: %(default)s)",
    )
    jobs.add_argument(
        "--targets", default=_TARGETS, metavar="NAME,...", help="the hardware (default: %(default)s)"
    )
    jobs.add_argument(
        "--shards",
        action="append",
        default=[],
        metavar="[TARGET=]N",
        help="how many jobs share the tests of each target, or of the named one; repeatable (default: 1)",
    )
    jobs.add_argument(
        "--runner",
        action="append",
        default=[],
        metavar="TARGET=LABEL,...",
        help="the labels (on GitLab: tags) of the runners that have this hardware; repeatable (default: the "
        "target's name; any runner for the CPU)",
    )
    jobs.add_argument(
        "--environment",
        action="append",
        default=[],
        metavar="TARGET=NAME",
        help="the tox environment of this target; repeatable (default: benchmarks on a CPU, benchmarks-gpu-trt on "
        "a GPU, benchmarks-gpu-cuda12-trt on a V100)",
    )
    jobs.add_argument(
        "--options",
        default="",
        metavar="TEXT",
        help="further options for pytest, quoted as on a command line: --options='-m \"not load\"'",
    )
    jobs.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from reports.matrix import services
    from reports.matrix.jobs import jobs_of, shards_in, targets_in, values_in

    targets = targets_in(options.targets)
    labels = values_in("--runner", options.runner, targets, r"[\w.:-]+(,[\w.:-]+)*", "a100=gpu-a100,linux")
    environments = values_in(
        "--environment", options.environment, targets, r"[a-z0-9-]+", "a100=benchmarks-gpu-cuda12-trt"
    )
    jobs = jobs_of(
        targets,
        shards_in(options.shards, targets),
        {target: value.split(",") for target, value in labels.items()},
        environments,
        _checked(options.options),
    )
    print({"github": services.github, "gitlab": services.gitlab}[options.format](jobs))
    return 0


def _checked(text: str) -> str:
    """What a shell would take as words, in one line."""
    try:
        shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"--options {text!r}: no command line ({error}). Write --options='-m \"not load\"'"
        ) from error
    if not text.isprintable():
        raise UsageError(f"--options {text!r}: write them in one line")
    return text
