"""A whole run over different models: each is independent, and each served one is recorded."""

from pathlib import Path

from reports.record import files
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import suite

LEAKING = code("values + self.before(values)") + (
    "\n    kept = 0\n\n    def before(self, values):\n"
    "        kept, self.kept = self.kept, values.mean()\n        return kept\n"
)
ONE_LONG = code("values if values.shape[-1] == 1 else None[0]")


def test_models_are_independent_and_served_ones_recorded(tmp_path: Path) -> None:
    """NVIDIA's identity_fp32, a model of five dimensions of any length, one whose rows no request can hold,
    one that leaks, and one that does not load. By name, each right model comes after a failing one."""
    root, results = tmp_path / "repository", tmp_path / "results"
    write_model(root, "broken", code("values"), f'name: "other"\n{config()}')
    write_model(root, "huge", code("values"), config(dims="100000, 100000"))
    write_model(root, "identity_fp32", code("values"), config(dims="-1", batch=64))
    write_model(root, "leaking", LEAKING, config())
    write_model(root, "non_contiguous", ONE_LONG, config(dims="-1, -1, -1, -1, -1", batch=0))
    selection = ("-m", "not load", "-k", "same_answer_again or declared", "--triton", "embedded")

    run = suite("--repository", str(root), *selection, results=results)

    assert run.status == 12, run.text
    records = {record.case.model: record for record in files.read_all(results)}
    assert records.keys() == {"identity_fp32", "leaking", "non_contiguous"}
    assert records["identity_fp32"].build.inputs == {"IN": (-1,)}
    assert not list(results.rglob("*huge*.json"))
