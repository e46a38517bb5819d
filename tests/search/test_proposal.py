"""Variation of a user's config.pbtxt by the search, and its diff."""

import subprocess
from pathlib import Path

import pytest
from google.protobuf import text_format
from msgspec import structs
from tritonclient.grpc.model_config_pb2 import ModelConfig

from fixtures.search import proposal
from fixtures.search.candidates import Candidate
from fixtures.spec import Deployment, Scenario

HEAD = 'name: "detector"  # { not a bracket\nmax_batch_size: 8\n'
ONE = "instance_group [\n  { count: 1, kind: KIND_CPU }\n]\n"
BATCHER = "dynamic_batching { preserve_ordering: true preferred_batch_size: [ 2 ] }\n"
TAIL = '# the end\nparameters { key: "brackets" value { string_value: "]}" } }\n'
COMPLETED = text_format.Parse(
    'max_batch_size: 8 instance_group { count: 1 kind: KIND_CPU name: "x_0" }', ModelConfig()
)
OWN = Deployment(8, 1, (), 0, cuda_graphs=False, warmup=False)


def candidate(
    instances: int = 2, scenario: Scenario = "online", delay_us: int = 100, *sizes: int
) -> Candidate:
    changes = {"instances": instances, "preferred_batch_sizes": sizes, "max_queue_delay_us": delay_us}
    return Candidate(scenario, structs.replace(OWN, **changes), ())


@pytest.mark.parametrize(
    ("text", "wanted", "kept"),
    [
        (HEAD + ONE + BATCHER + TAIL, candidate(), HEAD + TAIL.rstrip()),
        (HEAD + TAIL + ONE, candidate(4, "online", 0, 4, 8), HEAD + TAIL.rstrip()),
        (HEAD + TAIL, candidate(1, "online", 0), HEAD + TAIL.rstrip()),
        (HEAD + ONE + BATCHER + TAIL, candidate(1, "offline"), HEAD),
        ("max_batch_size: 8 instance_group { count: 1 } dynamic_batching {}", candidate(), ""),
        ("", candidate(), ""),
    ],
)  # fmt: skip
def test_diff_applies_cleanly_and_keeps_other_lines(
    text: str, wanted: Candidate, kept: str, tmp_path: Path
) -> None:
    own = text_format.Parse(text, ModelConfig())
    config = proposal.varied(own, COMPLETED, wanted)
    after = proposal.proposed(text, own, config)
    (tmp_path / "detector").mkdir()
    if text:
        (tmp_path / "detector" / "config.pbtxt").write_text(text)
    change = proposal.diff("detector", text, after)
    subprocess.run(["patch", "-p1", "--quiet"], input=change, text=True, cwd=tmp_path, check=True)

    patched = (tmp_path / "detector" / "config.pbtxt").read_text()
    assert text_format.Parse(patched, ModelConfig()) == config
    assert patched.startswith(kept)
    batching = config.dynamic_batching
    assert config.HasField("dynamic_batching") == (wanted.scenario == "online")
    assert batching.preserve_ordering == ("preserve" in text and wanted.scenario == "online")
    if wanted.scenario == "online":
        asked = wanted.deployment
        assert tuple(batching.preferred_batch_size) == asked.preferred_batch_sizes
        assert batching.max_queue_delay_microseconds == asked.max_queue_delay_us
    if wanted.deployment.instances > 1:
        assert [(one.count, one.kind) for one in config.instance_group] in ([(2, 2)], [(4, 2)], [(2, 0)])


def test_own_settings_give_an_empty_diff() -> None:
    text = HEAD + BATCHER + TAIL
    own = text_format.Parse(text, ModelConfig())
    same = proposal.varied(own, COMPLETED, candidate(1, "online", 0, 2))
    assert proposal.diff("detector", text, proposal.proposed(text, own, same)) == ""


def test_only_variable_settings_change() -> None:
    """Without batches, or with several instance groups, nothing can vary."""
    groups = "instance_group [ { count: 1 }, { count: 2 } ]"
    own = text_format.Parse(f"max_batch_size: 0 {groups}", ModelConfig())
    assert proposal.varied(own, own, candidate(4)) == own
