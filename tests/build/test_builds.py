"""The model repository builds once, reuses builds by content, rebuilds changed ones, keeps no partial one."""

import dataclasses
import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from msgspec import structs
from tritonclient.grpc import model_config_pb2 as pb

from tests.build.conversions import MICRO, UP_TO_32, WEIGHTS, build, case_with, writing
from tests.helpers import ROOT, present, wait_until
from tritonproof.base.errors import ProofError
from tritonproof.build import builds
from tritonproof.build.builds import IN_USE, private_copy, remove_unfinished
from tritonproof.run.converted_case import build_case
from tritonproof.settings.case_settings import deployment_of, samples_of
from tritonproof.settings.settings import Settings
from tritonproof.spec import ConversionJob, Samples, Tensor

OTHER_WEIGHTS = dataclasses.replace(WEIGHTS, digest="w2")


def rewrite(path: Path, **changes: object) -> None:
    """Change facts of a build.json."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def link(path: Path) -> None:
    """Rename a file, and put a link to it in its place."""
    path.symlink_to(path.rename(path.parent.parent.parent / path.name))


def bytecode(path: Path) -> None:
    """Replace the file that keeps bytecode out with a folder of bytecode."""
    path.unlink()
    path.mkdir()
    (path / "runtime.cpython-311.pyc").write_text("import os")


CHANGES: dict[str, Callable[[Path], object]] = {
    "another artifact": lambda folder: (folder / "1" / "model.onnx").write_text("conv"),
    "another runtime": lambda folder: (folder / "1" / "runtime.py").write_text("import os"),
    "an empty folder": lambda folder: (folder / "2").mkdir(),
    "a module that a runtime imports": lambda folder: (folder / "1" / "numpy.py").write_text("import os"),
    "bytecode": lambda folder: bytecode(folder / "1" / "__pycache__"),
    "a link": lambda folder: link(folder / "1" / "runtime.py"),
    "a pipe": lambda folder: os.mkfifo(folder / "1" / "pipe"),
    "other facts": lambda folder: rewrite(folder / "build.json", weights="those of somebody else"),
    "no description": lambda folder: (folder / "build.json").unlink(),
    "a description of another kind": lambda folder: (folder / "build.json").write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_build_is_rebuilt(change: str, tmp_path: Path) -> None:
    conversions: list[str] = []
    case = case_with(writing("converted", conversions))
    built = build(case, tmp_path)
    CHANGES[change](built.folder)
    assert builds.unchanged_facts(built.folder) is None
    assert not build(case, tmp_path).reused
    assert len(conversions) == 2
    assert built.artifact.read_text() == "converted"
    assert "os" not in {path.read_text() for path in built.folder.rglob("*.py")}
    assert sorted(path.name for path in built.folder.iterdir()) == ["1", "build.json", "config.pbtxt"]
    assert build(case, tmp_path).reused


def test_folder_artifact_is_checked_for_integrity(tmp_path: Path) -> None:
    def convert(_job: ConversionJob, path: Path) -> None:
        (path / "variables").mkdir(parents=True)
        (path / "variables" / "index").write_bytes(b"weights")

    case = case_with(convert)
    built = build(case, tmp_path)
    assert build(case, tmp_path).reused
    (built.artifact / "variables" / "index").rename(built.artifact / "variables" / "other")
    assert not build(case, tmp_path).reused


_WORKER = """
import sys, time
from pathlib import Path
from tests.build.conversions import build, case_with
root, seconds = Path(sys.argv[1]), float(sys.argv[2])

def convert(job, path):
    with (root / "log").open("a") as log:
        log.write("made\\n")
    path.write_text("half")
    time.sleep(seconds)
    path.write_text("converted")

print(build(case_with(convert), root).reused)
"""


def test_build_is_a_complete_model_folder(tmp_path: Path) -> None:
    built = build(case_with(writing("converted")), tmp_path)
    assert built.folder == tmp_path / "cpu" / "cpu-resnet50-micro-onnx-fp32"
    inside = {path.name for path in (built.folder / "1").iterdir() if path.stat().st_size}
    assert inside == {"model.onnx", "model.py", "runtime.py"}
    content = json.loads((built.folder / "build.json").read_text())["content"]
    assert content["versions"]["torch"]
    assert content["hardware"]
    assert {"tritonproof/models/resnet50.py", "tritonproof/formats/onnx.py"} < content["sources"].keys()


LARGER = structs.replace(UP_TO_32, max_batch_size=64, preferred_batch_sizes=(8,))


def test_equal_build_is_reused(tmp_path: Path) -> None:
    """Other weights or another largest batch size rebuild it; other settings change its configuration."""
    conversions: list[str] = []
    case = case_with(writing("converted", conversions))
    first, second = build(case, tmp_path), build(case, tmp_path)
    assert (first.reused, second.reused, second.facts) == (False, True, first.facts)
    third = build(case, tmp_path, deployment=structs.replace(UP_TO_32, instances=2))
    config = text_format.Parse((third.folder / "config.pbtxt").read_text(), pb.ModelConfig())
    assert config.instance_group[0].count == 2
    assert conversions == ["converted"]
    assert not build(case, tmp_path, weights=OTHER_WEIGHTS).reused
    assert not build(case, tmp_path, deployment=LARGER).reused


def test_outdated_build_is_detected_without_loading_weights(tmp_path: Path) -> None:
    case = case_with(writing("converted"))
    assert not builds.reusable_build(case, None, UP_TO_32, tmp_path, {})
    built = build(case, tmp_path)
    assert builds.reusable_build(case, None, UP_TO_32, tmp_path, {})
    assert not builds.reusable_build(case, None, LARGER, tmp_path, {})
    facts = built.folder / "build.json"
    for damage in (lambda: built.artifact.write_text("x"), lambda: rewrite(facts, content=None)):
        damage()
        assert not builds.reusable_build(case, None, UP_TO_32, tmp_path, {})


def test_fp32_without_tf32_is_rebuilt(tmp_path: Path) -> None:
    """Engines and generated kernels depend on TF32; cases without it keep their digest."""
    flags: list[bool | None] = []

    def convert(job: ConversionJob, path: Path) -> None:
        flags.append(job.tf32)
        path.write_text("converted")

    case = case_with(convert)
    deployments = [structs.replace(UP_TO_32, tf32=tf32) for tf32 in (True, False, False, None)]
    builds = [build(case, tmp_path, deployment=deployment) for deployment in deployments]
    assert flags == [True, False, None]
    assert [built.reused for built in builds] == [False, False, True, False]
    assert "tf32" not in json.loads((builds[-1].folder / "build.json").read_text())["content"]


def test_users_file_named_like_one_of_the_suite_rebuilds_int8(tmp_path: Path) -> None:
    """All files of the suite's models decide an INT8 build."""
    source = tmp_path / "models" / "resnet50.py"
    source.parent.mkdir()
    model = dataclasses.replace(MICRO, defined_in=source)
    case = dataclasses.replace(case_with(writing("converted"), "int8"), model=model)

    def sources(text: str) -> object:
        source.write_text(text)
        return builds.build_inputs(case, "weights", UP_TO_32, {}, "cpu")["sources"]

    assert sources("a = 1") != sources("a = 2")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_disk_error_names_folder_and_leaves_nothing(number: int, tmp_path: Path) -> None:
    def fail(_job: ConversionJob, path: Path) -> None:
        path.write_text("half")
        raise OSError(number, os.strerror(number))

    case = case_with(fail)
    where = str(tmp_path / "cpu" / str(case))
    with pytest.raises(ProofError, check=lambda error: error.where == where):
        build(case, tmp_path)
    assert not any(path.is_dir() for path in (tmp_path / "cpu").iterdir())


def worker(tmp_path: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _WORKER, str(tmp_path), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_conversion_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match="wrote no"):
        build(case_with(lambda _job, _path: None), tmp_path)


def test_parallel_processes_build_once(tmp_path: Path) -> None:
    workers = [worker(tmp_path, seconds=1) for _ in range(2)]
    outputs = sorted(process.communicate(timeout=60)[0].strip() for process in workers)
    assert outputs == ["False", "True"]
    assert (tmp_path / "log").read_text() == "made\n"


def test_killed_build_is_not_reused(tmp_path: Path) -> None:
    killed = worker(tmp_path, seconds=60)
    wait_until((tmp_path / "log").exists)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert not (tmp_path / "cpu" / "cpu-resnet50-micro-onnx-fp32").exists()
    conversions: list[str] = []
    assert not build(case_with(writing("converted", conversions)), tmp_path).reused
    assert conversions == ["converted"]
    assert not list((tmp_path / "cpu").glob(".unfinished*"))


@pytest.mark.parametrize(("precision", "rebuilds"), [("fp32", [True, False, False]), ("int8", [True] * 3)])
def test_only_int8_is_rebuilt_for_other_calibration_data(
    precision: str, rebuilds: list[bool], tmp_path: Path
) -> None:
    data, case = tmp_path / "data", case_with(writing("converted"), precision)
    for text, is_new in zip(("", "a", "b"), rebuilds, strict=True):
        data.write_text(text)
        given = [f"{MICRO.name}={data}"] if text else []
        settings = Settings.of(dataset=given, model_repos=str(tmp_path), triton="embedded")
        deployment, datasets = deployment_of(case, settings), settings.dataset
        for digest in (WEIGHTS.digest, None):
            assert (builds.reusable_build(case, digest, deployment, tmp_path, datasets) is None) is is_new
        built = build_case(case, WEIGHTS, settings, print)
        assert built.reused is not is_new
    decided_by = builds.stored_facts(built.folder)["content"]["sources"].keys()
    of_samples = {"tritonproof/user_models/media_files.py", "tritonproof/data/brats.py"}
    assert (of_samples < decided_by) is (precision == "int8")
    of_user = dataclasses.replace(case, model=dataclasses.replace(MICRO, defined_in=data))
    before = builds.build_inputs(of_user, "", deployment, {}, "cpu")
    (tmp_path / "training.npz").touch()
    assert (builds.build_inputs(of_user, "", deployment, {}, "cpu") != before) is (precision == "int8")


def test_conversion_gets_samples_of_the_dataset_in_the_models_order(tmp_path: Path) -> None:
    data, seen = tmp_path / "data", list[str]()
    data.write_text("b a")

    def samples(_split: str, dataset: Path | None, _checkpoint: object) -> Samples:
        names = present(dataset).read_text().split()
        return Samples(["one"], lambda _indices: dict.fromkeys(names, np.zeros((1, 2), np.float32)))

    def convert(job: ConversionJob, path: Path) -> None:
        seen.extend(job.samples("evaluation").read([0]))
        path.touch()

    inputs = Tensor("a", "FP32", (2,)), Tensor("b", "FP32", (2,))
    model = dataclasses.replace(MICRO, samples=samples, inputs=inputs)
    given = Settings.of(dataset=[f"{MICRO.name}={data}"], model_repos=str(tmp_path), triton="embedded")
    build_case(dataclasses.replace(case_with(convert), model=model), WEIGHTS, given, print)
    assert seen == ["a", "b"]


@pytest.mark.parametrize(
    ("ids", "name", "wrong"),
    [([], "", "none"), (["x", "x"], "", "one id"), (["x"], "y", "lacks"), (["x"], "INPUT__0", "FP64")],
)
def test_samples_that_do_not_fit_the_model_are_refused(ids: list[str], name: str, wrong: str) -> None:
    rows = {name: np.zeros((1, *MICRO.inputs[0].shape))}
    model = dataclasses.replace(MICRO, samples=lambda *_: Samples(ids, lambda _indices: rows))
    with pytest.raises(ProofError, match=wrong):
        samples_of(model, "evaluation", Settings.of(triton="embedded")).read([0])


@pytest.mark.parametrize("megabytes", [0, 3])
def test_rebuild_does_not_change_a_build_in_use(tmp_path: Path, megabytes: int) -> None:
    before, after = ("." * (megabytes << 20) + text for text in ("before", "after"))
    first = build(case_with(writing(before)), tmp_path)
    with private_copy(first) as taken:
        second = build(case_with(writing(after)), tmp_path, OTHER_WEIGHTS)
        assert second.facts.digest != taken.facts.digest == first.facts.digest
        assert second.artifact.read_text() == after
        assert taken.artifact.read_text() == before
        assert (taken.folder / "config.pbtxt").is_file()
        assert [path.name for path in taken.folder.parent.iterdir()] == [str(first.case)], "and no other case"


def test_code_edit_does_not_change_a_build_in_use_nor_its_permissions(tmp_path: Path) -> None:
    built = build(case_with(writing("converted")), tmp_path)
    runtime = Path("1", "runtime.py")
    code = (built.folder / runtime).read_text()
    for mode in (0o755, 0o700):
        built.folder.parent.chmod(mode)
        with private_copy(built) as taken:
            (built.folder / runtime).write_text("import time; time.sleep(0.05)")
            assert (taken.folder / runtime).read_text() == code
            assert stat.S_IMODE(taken.folder.parent.stat().st_mode) == mode
        (built.folder / runtime).write_text(code)


def test_build_replaced_before_use_is_refused(tmp_path: Path) -> None:
    first = build(case_with(writing("before")), tmp_path)
    build(case_with(writing("after")), tmp_path, OTHER_WEIGHTS)
    with pytest.raises(ProofError, check=lambda error: error.where == str(first.folder)), private_copy(first):
        pass
    assert left_in(tmp_path) == []


def left_in(root: Path) -> list[str]:
    """The leftovers of builds in use."""
    return sorted(path.name for path in (root / "cpu" / IN_USE).iterdir() if path.name != ".lock")


KILLED = """
import os, sys
from pathlib import Path
from tritonproof.build.builds import private_copy
from tests.build.conversions import build, case_with, writing
with private_copy(build(case_with(writing("converted")), Path(sys.argv[1]))):
    os._exit(9)
"""


def test_leftovers_of_killed_run_are_removed(tmp_path: Path) -> None:
    built = build(case_with(writing("converted")), tmp_path)
    result = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False, timeout=120)
    assert result.returncode == 9
    killed = left_in(tmp_path)
    assert killed
    with private_copy(built) as first, private_copy(built) as second:
        assert not set(killed) & set(left_in(tmp_path))
        assert first.artifact.is_file(), "it lives, and is left alone by the other"
        assert second.folder != first.folder
        assert remove_unfinished(tmp_path) == []
    assert left_in(tmp_path) == []


def test_stale_unfinished_builds_are_removed_and_active_ones_kept(tmp_path: Path) -> None:
    half_made, export = tmp_path / "cpu" / ".unfinished-cpu-a-0", tmp_path / ".against" / ".unfinished-0"
    (half_made / "cpu-a" / "1").mkdir(parents=True)
    export.mkdir(parents=True)
    (tmp_path / "cpu" / "cpu-b").mkdir()
    (tmp_path / "cpu" / ".unfinished-link").symlink_to("cpu-b")
    assert remove_unfinished(tmp_path) == [export, half_made]
    assert (tmp_path / "cpu" / "cpu-b").is_dir()
    seen: list[list[Path]] = []

    def convert(_job: ConversionJob, path: Path) -> None:
        seen.append(remove_unfinished(tmp_path))
        path.write_text("converted")

    assert build(case_with(convert), tmp_path).artifact.read_text() == "converted"
    assert seen == [[]]
