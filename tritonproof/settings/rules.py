"""The rules about several options, by the moment at which each is checked: when it is known which are given,
what their values are, and which models the values are for. Rules about the selected tests, and about pytest's
own options, are in fixtures/collection.py."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tritonproof.base import commands
from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.settings.options import Option, RemoteModels, flag_of

if TYPE_CHECKING:
    from tritonproof.settings.settings import Settings


def check_given(given: frozenset[str], options: Mapping[str, Option]) -> None:
    """Raise InputError for given options of which one conflicts with another or lacks what it needs, as the
    fields of `Settings` say."""
    for name, option_ in options.items():
        for conflict in option_.conflicts_with.split():
            if {name, conflict} <= given:
                what = f"{flag_of(name)} cannot be combined with {flag_of(conflict)}"
                fix = f"leave {flag_of(name)} out, or {flag_of(conflict)}"
                raise InputError(what, where=f"{flag_of(conflict)} {flag_of(name)}", fix=fix)
        if name in given and option_.needs and given.isdisjoint(option_.needs.split()):
            needed = " or ".join(map(flag_of, option_.needs.split()))
            fix = f"add {needed}, or leave {flag_of(name)} out"
            raise InputError(f"{flag_of(name)} is used with {needed}", where=flag_of(name), fix=fix)


def check_values(settings: "Settings") -> None:
    """Raise InputError for values that contradict each other."""
    given, against, against_triton = settings.given, settings.against, settings.against_triton
    triton = f"--triton {settings.triton}"
    is_remote = settings.triton.is_remote
    has_repository = settings.repository is not None
    if has_repository and is_remote != isinstance(settings.repository, RemoteModels):
        what = "a folder needs a server that the run starts, and a server at HOST:PORT has its own models"
        fix = "use --repository remote with --triton HOST:PORT, a folder with any other server"
        raise InputError(what, where=f"--repository {settings.repository} {triton}", fix=fix)
    for name, is_used in (("triton_ca", settings.triton.access.tls), ("triton_headers", is_remote)):
        if name in given and not is_used:
            what = f"{flag_of(name)} is for a server that is reached over the network"
            fix = "use it with --triton grpcs://HOST:PORT"
            raise InputError(what, where=f"{flag_of(name)} {triton}", fix=fix)
    if against_triton is not None and against_triton.is_remote != is_remote:
        what = "this run must start both servers, or both must be at HOST:PORT"
        fix = "use embedded, local[:PATH] or docker[:IMAGE] for both, or HOST:PORT for both"
        raise InputError(what, where=f"--against-triton {against_triton} {triton}", fix=fix)
    starting_servers = {"against", "fleet"} | ({"latency_budget_ms"} if has_repository else set())
    for name in sorted(given & starting_servers) if is_remote else ():
        what = f"{flag_of(name)} starts a server or loads models, and a server at HOST:PORT is left as it is"
        compare = commands.tool_command("report", "compare")
        fix = f"use embedded, local or docker, or compare records: {compare}"
        raise InputError(what, where=f"{flag_of(name)} {triton}", fix=fix)
    if has_repository and against is not None and against.kind != "folder":
        what = "a model repository is compared with another one, and nothing is built for that"
        fix = "give --against the folder of the repository that this one is to replace"
        where = f"--repository {settings.repository} --against {against}"
        raise InputError(what, where=where, fix=fix)
    # perf_analyzer 2.51 unregisters the regions of every client at the beginning and end of each run.
    if is_remote and settings.shared_memory != "none":
        what = "perf_analyzer unregisters the shared memory of all clients, and others may use this server"
        fix = "leave --shared-memory out, or have the run start a server of its own"
        raise InputError(what, where=f"{triton} --shared-memory {settings.shared_memory}", fix=fix)
    # perf_analyzer 2.51 allocates all on the first GPU: `device_id = 0` in src/infer_data_manager_shm.h.
    if settings.shared_memory == "cuda" and settings.gpus > 1:
        what = "the load generator keeps CUDA's shared memory on the first GPU, where the others would read"
        where = f"--gpus {settings.gpus} --shared-memory cuda"
        raise InputError(what, where=where, fix="leave one of them out")
    searches = given & {"request_rates", "latency_budget_ms"}
    if "arrivals" in given and len(searches) != 1:
        what = "--arrivals is for the given rates or for the rate that is searched for"
        fix = "give --request-rates to measure those, or --latency-budget-ms to search for the highest"
        raise InputError(what, where=" ".join(map(flag_of, ["arrivals", *sorted(searches)])), fix=fix)


def check_labels(settings: "Settings", models: Collection[str]) -> None:
    """Raise InputError for labels of one of these models, or for what belongs to labels, without the rest."""
    for values, needed in (
        (settings.labels, settings.metric),
        (settings.metric, settings.labels),
        (settings.floor, settings.metric),
        (settings.labels, settings.samples),
    ):
        for name in sorted(values.by_model(models).keys() - needed.by_model(models).keys()):
            what = f"{values.flag} for model {name} also needs {needed.flag}"
            where = f"{values.flag} {excerpt(str(values.by_model(models)[name]))}"
            fix = f"add {needed.flag}, as in --samples DIR --labels FILE --metric top-1 --floor 0.75"
            raise InputError(what, where=where, fix=fix)
    if settings.repository is None:
        return  # a conversion without a floor is held to its framework's score
    labels, floors = settings.labels.by_model(models), settings.floor.by_model(models)
    for name in sorted(labels.keys() - floors.keys()):
        what = f"--labels needs --floor for {name}: a model as served has no framework's score"
        fix = "add --floor, such as --floor 0.75"
        raise InputError(what, where=f"--labels {labels[name]}", fix=fix)
