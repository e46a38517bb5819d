"""Model files join the suite for one run; errors name the line, and builds contain code from their folder."""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import toy
from tests.user_models.written_files import write
from tritonproof.base.errors import InputError
from tritonproof.build.builds import build_inputs
from tritonproof.models import all_models
from tritonproof.spec import NetworkModel, Runtime
from tritonproof.user_models.model_files import imported_models

SOURCES = {
    "mine.py": "import deep.er.still",
    "beside.py": "",
    "deep/__init__.py": "",
    "deep/er/still.py": "from spaces.layers import conv",
    "spaces/layers/conv.py": "",
    "plain_folder/inside.py": "",
    "no-package/tool.py": "",
    "data/list.csv": "",
    "data/large/tool.py": "",
    ".#mine.py": "an editor's lock",
}
IMPORTABLE = set(SOURCES) - {"no-package/tool.py", "data/list.csv", "data/large/tool.py", ".#mine.py"}


@pytest.mark.parametrize("name", SOURCES)
def test_code_that_can_be_imported_changes_the_build(name: str, tmp_path: Path) -> None:
    for path, source in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    plain = toy.case(toy.model(defined_in=tmp_path / "mine.py"))
    case = dataclasses.replace(
        plain, format=dataclasses.replace(plain.format, runtime=Runtime(file="onnx.py"))
    )
    before = build_inputs(case, toy.weights().digest, toy.DEPLOYMENT, {}, "cpu")
    (tmp_path / name).write_text("# other\n")
    assert (build_inputs(case, toy.weights().digest, toy.DEPLOYMENT, {}, "cpu") != before) is (
        name in IMPORTABLE
    )


Add = Callable[..., dict[str, NetworkModel]]


@pytest.fixture
def add() -> Iterator[Add]:
    """The models of files by name, usable until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda *paths: {model.name: model for model in stack.enter_context(imported_models(paths, ()))}


def test_models_of_a_file_are_removed_with_all_traces(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("WORD = 'found'\n")
    file = write(tmp_path / "mine.py", "mine", "import beside_it")
    before = set(sys.modules), list(sys.path)
    with imported_models([file], all_models()) as models:
        assert [*models[:-1]] == [*all_models()]
        assert (models[-1].name, models[-1].defined_in) == ("mine", file)
    assert (set(sys.modules), sys.path) == before


@pytest.mark.parametrize(
    ("named", "models"),
    [
        (("",), {"one", "two"}),
        (("two",), {"two"}),
        (("one.py", "", "one.py"), {"one", "two"}),
        (("one.py", "further/one.py"), {"one", "other"}),
    ],
    ids=["a folder", "a package", "a file twice", "two files of one name"],
)
def test_folder_adds_only_files_and_packages_that_list_models(
    named: tuple[str, ...], models: set[str], tmp_path: Path, add: Add
) -> None:
    write(tmp_path / "one.py", "one")
    write(tmp_path / "further" / "one.py", "other")
    write(tmp_path / "two" / "__init__.py", "two", "from .parts import WORD")
    (tmp_path / "two" / "parts.py").write_text("WORD = 'found'\n")
    (tmp_path / "setup.py").write_text("raise SystemExit('never to be run')\n")
    added = add(*(tmp_path / name for name in named))
    assert set(added) == models
    assert "two" not in added or added["two"].defined_in == tmp_path / "two" / "__init__.py"


def test_neighbours_are_importable_after_loading(tmp_path: Path, add: Add) -> None:
    (tmp_path / "later.py").write_text("WORD = 'found'\n")
    late = "def late():\n    import later\n    from . import later as same\n    return later.WORD + same.WORD"
    file = write(tmp_path / "mine.py", "mine", late)
    text = file.read_text().replace("lambda _checkpoint: None", "lambda _checkpoint: late()")
    file.write_text(text.replace("Path(__file__)", "Path('nowhere.py')"))
    assert add(file)["mine"].load_weights(None) == "foundfound"
    assert add(file)["mine"].defined_in == file, "whatever it says of itself"


def test_neighbours_with_equal_names_are_imported_relatively(tmp_path: Path, add: Add) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder / "mine.py", folder, f"from .layers import WORD\nassert WORD == '{folder}'")
        (tmp_path / folder / "layers.py").write_text(f"WORD = '{folder}'\n")
    assert set(add(tmp_path / "a", tmp_path / "b")) == {"a", "b"}


def refusal(*paths: Path) -> InputError:
    with pytest.raises(InputError) as raised, imported_models(paths, all_models()):
        pass
    assert "--models" in raised.value.where
    assert raised.value.fix
    return raised.value


@pytest.mark.parametrize(
    "source",
    [
        "a = 1\nb = {}['gone']\nMODELS = ()\n",
        "a = 1\nMODELS = (\n",
        "import pytest\npytest.importorskip('no_such_package')\nMODELS = ()\n",
        "E = type('E', (Exception,), {'__str__': lambda e: 1 / 0})\nraise E\n",
        "\nimport neighbour\nMODELS = ()\n",
    ],
)
def test_error_in_a_file_names_its_line(source: str, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("\n1 / 0\n")
    file = tmp_path / "broken.py"
    file.write_text(source)
    culprit = tmp_path / "neighbour.py" if "neighbour" in source else file
    assert f"{culprit}:2" in str(refusal(file))


@pytest.mark.parametrize(
    ("file", "source", "named"),
    [
        ("mine.py", "x = 1\n", "mine.py"),
        ("mine.py", "MODELS = ()\n", "mine.py"),
        ("mine.py", "MODELS = ('resnet50',)\n", "mine.py"),
        ("model.onnx", "", "model.onnx"),
        ("setup.py", "x = 1\n", ""),
    ],
    ids=["no list", "an empty list", "a name", "another kind of file", "a folder"],
)
def test_path_without_models_is_refused(file: str, source: str, named: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(source)
    assert str(tmp_path / named) in refusal(tmp_path / named).where


@pytest.mark.parametrize("names", [(all_models()[0].name,), ("mine", "mine"), ("../mine",)])
def test_taken_or_invalid_name_is_refused(names: tuple[str, ...], tmp_path: Path) -> None:
    files = [write(tmp_path / f"{index}.py", name) for index, name in enumerate(names)]
    assert str(files[-1]) in str(refusal(*files))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("profiles", "{'cpu': 1}"),
        ("profiles", "{'h1000': MODELS[0].profiles['cpu']}"),
        ("tolerances", "[1]"),
        ("tolerances", "{'fp8': Tolerance(0.1, 0.9, 'measured')}"),
        ("framework", "'\\x1b[2J'"),
        ("framework", "None"),
        ("keep", "3"),
        ("micro", "'no'"),
        ("metrics", "(dataclasses.replace(MODELS[0].metrics[0], limits={'int88': 0.5}),)"),
        ("metrics", "(dataclasses.replace(MODELS[0].metrics[0], limits={'fp32': 0.8}),)"),
        ("metrics", "(dataclasses.replace(MODELS[0].metrics[0], limits={}),)"),
        ("metrics", "MODELS[0].metrics[0]"),
    ],
)
def test_field_of_wrong_type_is_named(tmp_path: Path, field: str, value: str) -> None:
    file = write(tmp_path / "mine.py", "mine")
    with file.open("a") as source:
        source.write("import dataclasses\nfrom tritonproof.spec import Tolerance\n")
        source.write(f"MODELS = (dataclasses.replace(MODELS[0], {field}={value}),)\n")
    text = str(refusal(file))
    assert field in text or "limit" in text
    assert "\x1b" not in text
