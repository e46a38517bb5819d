"""The Kubernetes Job is valid and runs a command of the image."""

import kubernetes_validate
import yaml

from tests.helpers import ROOT

JOB = ROOT / "ci" / "job.yaml"


def test_job_validates_against_kubernetes_schema() -> None:
    job = yaml.safe_load(JOB.read_text())

    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "prove"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in job["spec"]["template"]["spec"]["volumes"]}
