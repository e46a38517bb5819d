"""The jobs as GitHub and GitLab take them: a matrix as JSON, a child pipeline as YAML.

It needs the standard library alone.
"""

import json
from collections.abc import Sequence

from reports.commands import UsageError
from reports.matrix.jobs import Job

_MOST_OF_GITHUB = 256
"""A matrix of GitHub Actions makes no more jobs than these: its documentation on running variations of jobs."""
_ANY_OF_GITHUB = "ubuntu-24.04"
"""A runner that GitHub has, for jobs that need no label."""

_RESULTS = "reports/results"
"""Where the records of each job lie, in a folder of its name. git ignores it, so that the checkout stays clean."""
_INSTALL = 'pip install "tox>=4.30,<5"'


def github(jobs: Sequence[Job]) -> str:
    """What `strategy.matrix` takes by `fromJSON`, in one line as a step's output has to be."""
    if len(jobs) > _MOST_OF_GITHUB:
        raise UsageError(
            f"{len(jobs)} jobs, and a matrix of GitHub has {_MOST_OF_GITHUB} at most. Give fewer --shards, or make two "
            "matrices of some --targets each"
        )
    entries = [
        {
            "name": job.name,
            "target": job.target,
            "shard": job.shard,
            "runner": ["self-hosted", *job.runner] if job.runner else _ANY_OF_GITHUB,
            "environment": job.environment,
            "options": job.options,
        }
        for job in jobs
    ]
    return json.dumps({"include": entries})


def gitlab(jobs: Sequence[Job]) -> str:
    """A pipeline of its own: a job for each shard, and one that joins their records whatever became of them."""
    return "\n".join([_HEAD, *map(_gitlab_job, jobs), _MERGE])


def _gitlab_job(job: Job) -> str:
    command = [
        f"tox run -e {job.environment} -- --target {job.target} --shard {job.shard}",
        f"--results {_RESULTS}/{job.name} --junit-xml=junit.xml",
        *([job.options] if job.options else []),
    ]
    tags = f"\n  tags: {json.dumps(list(job.runner))}" if job.runner else ""
    return f"""\
{job.name}:
  stage: measure{tags}
  script:
    - {json.dumps(_INSTALL)}
    - {json.dumps(" ".join(command))}
  artifacts:
    when: always
    paths: [{_RESULTS}]
    reports:
      junit: junit.xml
"""


_HEAD = """\
# Made by `python -m reports matrix --format gitlab`.
stages: [measure, merge]

default:
  image: python:3.11-bookworm
"""

_MERGE = f"""\
merge:
  stage: merge
  when: always
  script:
    - {json.dumps(_INSTALL)}
    - python -m reports merge {_RESULTS}/* --output merged
    - tox run -e report -- html --results merged --output report.html
    - tox run -e report -- tables --results merged
  artifacts:
    when: always
    paths: [merged, report.html]"""
