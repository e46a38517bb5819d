"""`python -m reports matrix`: jobs that GitHub and GitLab take, and that the suite understands."""

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from fixtures.frameworks.cuda_libraries import gpu_environment
from fixtures.host.targets import CPU, EVERY_TARGET
from fixtures.run import option_types
from fixtures.spec import Target
from reports.matrix.jobs import environment_of
from tests.collecting import Collect

Print = Callable[..., str]


def on_github(printed: Print, *arguments: str) -> list[dict[str, Any]]:
    (line,) = printed("matrix", *arguments).splitlines()
    found: list[dict[str, Any]] = json.loads(line)["include"]
    return found


def on_gitlab(printed: Print, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(printed("matrix", "--format", "gitlab", *arguments))
    return {name: job for name, job in found.items() if isinstance(job, dict) and "script" in job}


def command_of(job: dict[str, Any]) -> list[str]:
    return shlex.split(job["script"][-1])


def test_each_target_has_a_job_for_each_of_its_shards(printed: Print) -> None:
    arguments = ("--targets", "cpu,t4,a100", "--shards", "2", "--shards", "a100=3", "--shards", "cpu=1")
    wanted = ["1/1", "1/2", "2/2", "1/3", "2/3", "3/3"]

    jobs = on_github(printed, *arguments)
    assert [job["shard"] for job in jobs] == wanted
    assert [job["target"] for job in jobs] == ["cpu", "t4", "t4", "a100", "a100", "a100"]
    assert len({job["name"] for job in jobs}) == len(jobs)

    child = on_gitlab(printed, *arguments)
    child.pop("merge")
    assert list(child) == [job["name"] for job in jobs]
    assert [words[words.index("--shard") + 1] for words in map(command_of, child.values())] == wanted


def test_without_an_option_there_is_a_job_for_each_published_target_and_the_cpu(printed: Print) -> None:
    published = {target.name for target in EVERY_TARGET if target.is_published}
    assert {job["target"] for job in on_github(printed)} == published | {"cpu"}


def test_a_gpu_s_job_goes_to_a_runner_with_its_label_and_the_cpu_s_to_any(printed: Print) -> None:
    arguments = ("--targets", "cpu,t4,a100", "--runner", "a100=gpu-a100,linux")
    cpu, t4, a100 = on_github(printed, *arguments)
    assert isinstance(cpu["runner"], str)
    assert t4["runner"] == ["self-hosted", "t4"]
    assert a100["runner"] == ["self-hosted", "gpu-a100", "linux"]

    child = on_gitlab(printed, *arguments)
    assert "tags" not in child["cpu"]
    assert child["t4"]["tags"] == ["t4"]
    assert child["a100"]["tags"] == ["gpu-a100", "linux"]


@pytest.mark.parametrize("target", EVERY_TARGET, ids=lambda target: target.name)
def test_each_target_can_be_named_and_has_the_environment_with_its_packages(
    target: Target, printed: Print
) -> None:
    (job,) = on_github(printed, "--targets", target.name)
    wanted = gpu_environment(target.compute_capability, None, tensorrt=True)
    assert job["environment"] == ("benchmarks" if target == CPU else wanted) == environment_of(target.name)


def test_an_older_driver_s_environment_can_be_named(printed: Print) -> None:
    name = "benchmarks-gpu-cuda12"
    assert on_github(printed, "--targets", "t4", "--environment", f"t4={name}")[0]["environment"] == name
    assert f"tox run -e {name} -- " in printed(
        "matrix", "--format", "gitlab", "--targets", "t4", "--environment", f"t4={name}"
    )


def test_what_a_job_of_gitlab_gives_pytest_is_understood(printed: Print, collect: Collect) -> None:
    arguments = ("--targets", "cpu", "--shards", "2", "--options", '-m "not load" -k "onnx and not int8"')
    child = on_gitlab(printed, *arguments)
    names = []
    for name in ("cpu-1of2", "cpu-2of2"):
        words = command_of(child[name])
        given = [word for word in words[words.index("--") + 1 :] if not word.startswith("--junit-xml")]
        collected = collect(*given)
        assert collected.status == 0, collected.text
        names += collected.names
    assert sorted(names) == sorted(collect("-m", "not load", "-k", "cpu and onnx and not int8").names)


def test_gitlab_joins_what_each_job_keeps_whatever_became_of_it(printed: Print) -> None:
    child = on_gitlab(printed, "--targets", "cpu,t4", "--shards", "2")
    merge = child.pop("merge")
    (joined,) = [shlex.split(line) for line in merge["script"] if " merge " in line]
    folders = [words[words.index("--results") + 1] for words in map(command_of, child.values())]

    assert len(set(folders)) == len(folders), "two jobs would write into one folder"
    for job, folder in zip(child.values(), folders, strict=True):
        (kept,) = job["artifacts"]["paths"]
        assert job["artifacts"]["when"] == "always"
        assert folder.startswith(f"{kept}/")
        assert f"{kept}/*" in joined
        assert job["artifacts"]["reports"]["junit"] == re.findall(r"--junit-xml=(\S+)", job["script"][-1])[0]
    assert merge["when"] == "always"


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (("--targets", "cpu,a 100"), "Write --targets cpu,a100"),
        (("--targets", ""), "Write --targets cpu,a100"),
        (("--targets", "../x"), "Write --targets cpu,a100"),
        (("--shards", "0"), "Write --shards 2, or a100=4"),
        (("--shards", "a100=x"), "Write --shards 2, or a100=4"),
        (("--shards", "1001"), "Write --shards 2, or a100=4"),
        (("--shards", "h100=2"), "Name it in --targets too"),
        (("--runner", "a100"), "Write --runner a100=gpu-a100,linux"),
        (("--runner", "a100=x,"), "Write --runner a100=gpu-a100,linux"),
        (("--runner", "a100=x\ny"), "Write --runner a100=gpu-a100,linux"),
        (("--runner", "h100=x"), "Name it in --targets too"),
        (("--environment", "a100=$(x)"), "Write --environment a100="),
        (("--options", '-k "a'), "Write --options="),
        (("--options", "-k a\nb"), "write them in one line"),
        (("--shards", "50"), "Give fewer --shards"),
    ],
)
def test_what_makes_no_jobs_is_refused(
    arguments: tuple[str, ...], cure: str, refused: Callable[..., str]
) -> None:
    assert cure in refused("matrix", *arguments)


def test_the_shards_that_there_can_be_are_those_that_the_suite_takes(printed: Print) -> None:
    most = on_gitlab(printed, "--targets", "cpu", "--shards", "1000")
    assert option_types.shard("--shard", command_of(most["cpu-1000of1000"])[8]).count == 1000
