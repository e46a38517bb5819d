"""Trains small scikit-learn models and writes them as ONNX files, with samples and labels beside them:
`python sklearn_models.py FOLDER`, with skl2onnx installed."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingRegressor, IsolationForest, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

NO_MAPS = {"zipmap": False}
_SUBJECTS = [
    "the match was won in the last minute",
    "the bank has raised its rates",
    "the rain goes on until night",
]


def _classifier(folder: Path, name: str, model: Any, options: dict[str, Any], *, named: bool = False) -> None:
    values, classes = load_iris(return_X_y=True)
    values = values.astype(np.float32)
    texts = np.array(load_iris().target_names)[classes]
    model.fit(values, texts if named else classes)
    _write(folder, name, to_onnx(model, values[:1], options={id(model): options}, target_opset=17))
    np.save(_samples(folder, name) / "X.npy", values[::3])
    if not named:
        np.save(folder / "samples" / name / "labels.npy", classes[::3].astype(np.int64))


def classifiers(folder: Path) -> None:
    _classifier(folder, "forest", RandomForestClassifier(20, random_state=0), NO_MAPS)
    _classifier(folder, "neighbours", KNeighborsClassifier(), NO_MAPS)
    _classifier(folder, "named_classes", LogisticRegression(max_iter=1000), NO_MAPS, named=True)
    # skl2onnx's default: the probabilities are a sequence of maps.
    _classifier(folder, "maps", RandomForestClassifier(5, random_state=0), {})


def boosted(folder: Path) -> None:
    values, targets = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(random_state=0).fit(values, targets)
    _write(folder, "boosted", to_onnx(model, values[:1].astype(np.float32), target_opset=17))
    np.save(_samples(folder, "boosted") / "X.npy", values[::5].astype(np.float32))


def outliers(folder: Path) -> None:
    values = load_iris(return_X_y=True)[0].astype(np.float32)
    model = IsolationForest(n_estimators=20, random_state=0).fit(values)
    _write(folder, "outliers", to_onnx(model, values[:1], target_opset={"": 17, "ai.onnx.ml": 3}))
    np.save(_samples(folder, "outliers") / "X.npy", values[::3])


def texts(folder: Path) -> None:
    words = ("here", "there", "again", "they say", "at last")
    lines = [f"{subject} {word}" for subject in _SUBJECTS for word in words]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model.fit(lines, [place // 5 for place in range(15)])
    options: dict[Any, Any] = {id(model): NO_MAPS, TfidfVectorizer: {"locale": "C"}}
    types = [("text", StringTensorType([None, 1]))]
    _write(folder, "texts", to_onnx(model, initial_types=types, options=options))
    (_samples(folder, "texts") / "lines.txt").write_text("\n".join(lines) + "\n")


def mixed(folder: Path) -> None:
    random = np.random.default_rng(0)
    count = 60
    colours = random.choice(["red", "green", "blue"], count).astype(object)
    rooms, sizes = random.integers(1, 6, count), random.normal(50, 20, count).astype(np.float32)
    frame = np.column_stack([colours, rooms, sizes])
    scaled = [("rooms", StandardScaler(), [1]), ("size", StandardScaler(), [2])]
    columns = ColumnTransformer([("colour", OneHotEncoder(), [0]), *scaled])
    model = make_pipeline(columns, LogisticRegression())
    model.fit(frame, (sizes > 50) & (colours != "red"))
    types = [
        ("colour", StringTensorType([None, 1])),
        ("rooms", Int64TensorType([None, 1])),
        ("size", FloatTensorType([None, 1])),
    ]
    _write(folder, "mixed", to_onnx(model, initial_types=types, options={id(model): NO_MAPS}))
    values = {"colour": colours.astype(str), "rooms": rooms, "size": sizes}
    rows = {name: column[:, None] for name, column in values.items()}
    np.savez(_samples(folder, "mixed") / "rows.npz", **rows)


def _write(folder: Path, name: str, network: Any) -> None:
    (folder / f"{name}.onnx").write_bytes(network.SerializeToString())


def _samples(folder: Path, name: str) -> Path:
    samples = folder / "samples" / name
    samples.mkdir(parents=True)
    return samples


if __name__ == "__main__":
    for write in (classifiers, texts, boosted, outliers, mixed):
        write(Path(sys.argv[1]))
