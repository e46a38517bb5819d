"""On a machine with several GPUs a run uses one kind, and as many as requested; NVML is a stand-in."""

import os
from collections.abc import Iterator

import pytest

from tests.helpers import Collect, Collected
from tests.host.fake_nvml import Nvml, in_place_of_nvml

T4, FIRST_A100, SECOND_A100, OTHER_A100 = "GPU-t4-0", "GPU-a100-1", "GPU-a100-2", "GPU-a100-3"
NAMES = {
    T4: "Tesla T4",
    FIRST_A100: "NVIDIA A100-SXM4-80GB",
    SECOND_A100: "NVIDIA A100-SXM4-80GB",
    OTHER_A100: "NVIDIA A100-PCIE-40GB",
    "MIG-1": "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    "MIG-2": "NVIDIA A100-SXM4-80GB MIG 2g.20gb",
}


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """A machine with a T4, followed by three A100s of two models."""
    fake = Nvml(lambda: 0.0, T4, FIRST_A100, SECOND_A100, OTHER_A100)
    fake.names = NAMES
    fake.capabilities = {T4: (7, 5)}
    with in_place_of_nvml(fake, monkeypatch):
        yield fake


def skip_reasons(collected: Collected) -> dict[str, set[str]]:
    """Reasons for skipped tests, except missing packages, by the name of their target."""
    reasons: dict[str, set[str]] = {}
    for item in collected.selected:
        if hasattr(item, "callspec"):
            texts = {str(mark.kwargs["reason"]) for mark in item.iter_markers("skip")}
            of_hardware = {text for text in texts if "GPU" in text or "machine" in text}
            reasons.setdefault(item.callspec.params["case"].target.name, set()).update(of_hardware)
    return reasons


@pytest.mark.parametrize(
    ("visible", "arguments", "used"),
    [
        (None, (), [T4]),
        (None, ("--target", "a100"), [FIRST_A100]),
        (None, ("-k", "a100 and onnx"), [FIRST_A100]),
        (None, ("-k", "t4"), [T4]),
        (None, ("--target", "a100", "--gpus", "2"), [FIRST_A100, SECOND_A100]),
        (None, ("--target", "cpu"), []),
        ("2", ("--target", "a100"), [SECOND_A100]),
        ("3,1", ("--target", "a100"), [OTHER_A100]),
        ("GPU-a100-2", ("--target", "a100"), [SECOND_A100]),
        (f"{T4},{OTHER_A100}", ("--target", "a100"), [OTHER_A100]),
    ],
)
def test_run_sees_only_its_gpus(
    nvml: Nvml,
    collect: Collect,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    arguments: tuple[str, ...],
    used: list[str],
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    collected = collect(*arguments)
    assert collected.environment.get("CUDA_VISIBLE_DEVICES") == (",".join(used) or None)
    assert collected.environment.get("CUDA_DEVICE_ORDER") == ("PCI_BUS_ID" if used else None)
    assert not used or collected.gpu_names == tuple(NAMES[uuid] for uuid in used)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible, "what the run set is gone with it"


def test_known_gpu_is_preferred_to_an_unknown_one(nvml: Nvml, collect: Collect) -> None:
    nvml.names = NAMES | {T4: "NVIDIA DGX Display"}
    collected = collect()
    assert collected.targets == {"a100"}
    assert collected.environment["CUDA_VISIBLE_DEVICES"] == FIRST_A100


def test_second_gpu_kind_skips_with_reason(nvml: Nvml, collect: Collect) -> None:
    reasons = skip_reasons(collect("--target", "a100,t4,l4"))
    assert reasons["a100"] == set()
    assert "--target t4" in str(reasons["t4"])
    assert "needs NVIDIA L4" in str(reasons["l4"])


@pytest.mark.parametrize(
    ("visible", "shows"), [("0", "Tesla T4"), ("", "no NVIDIA GPU"), ("9", "no NVIDIA GPU")]
)
def test_hidden_gpu_skips_naming_cuda_visible_devices(
    nvml: Nvml, collect: Collect, monkeypatch: pytest.MonkeyPatch, visible: str, shows: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    reasons = skip_reasons(collect("--target", "a100,l4"))
    assert "CUDA_VISIBLE_DEVICES" in str(reasons["a100"])
    assert "CUDA_VISIBLE_DEVICES" not in str(reasons["l4"])
    assert all(shows in str(reason) for reason in reasons.values())


def test_case_on_several_gpus_has_own_name(nvml: Nvml, collect: Collect) -> None:
    options = ("--target", "a100,cpu", "--gpus")
    single, several = (collect(*options, count).cases("test_conversion") for count in ("1", "2"))
    assert several == {name if name.startswith("cpu") else f"{name}-2gpus" for name in single}
    assert any(name.startswith("a100") for name in single)


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [(("--target", "a100", "--gpus", "3"), "--gpus 2"), (("--target", "cpu", "--gpus", "2"), "--target")],
)
def test_more_gpus_than_available_are_refused(
    nvml: Nvml, collect: Collect, arguments: tuple[str, ...], fix: str
) -> None:
    collected = collect(*arguments)
    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert f"where: --gpus {arguments[-1]}" in collected.text
    assert fix in collected.text


def test_case_on_several_gpus_skips_without_any_gpu(nvml: Nvml, collect: Collect) -> None:
    nvml.refused = {"nvmlInit", "nvmlDeviceGetCount"}  # as without a driver
    collected = collect("--target", "a100", "--gpus", "2")
    assert skip_reasons(collected) == {"a100": {"needs NVIDIA A100; this machine has no NVIDIA GPU"}}


@pytest.mark.parametrize(("visible", "used"), [(None, "MIG-1"), ("MIG-2", "MIG-2"), ("0", "MIG-1")])
def test_mig_slice_is_a_target_of_its_own(
    nvml: Nvml, collect: Collect, monkeypatch: pytest.MonkeyPatch, visible: str | None, used: str
) -> None:
    nvml.uuids = (FIRST_A100,)
    nvml.instances = {FIRST_A100: ["MIG-1", "MIG-2"]}
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    collected = collect()
    assert collected.targets == {"mig"}
    assert (collected.environment["CUDA_VISIBLE_DEVICES"], collected.gpu_names) == (used, (NAMES[used],))
    assert "MIG" in str(skip_reasons(collect("--target", "a100"))["a100"])
    assert collect("--gpus", "2").status == pytest.ExitCode.USAGE_ERROR
