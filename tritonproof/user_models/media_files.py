"""Samples that have to be prepared: PNG and JPEG files, each a row of the model's only input; and text files,
each line a sample, for a BYTES input or a tokenizer. samples.toml says how."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.safe_io.arrays import opened_picture
from tritonproof.safe_io.files import check_count, read_json, read_text, read_toml, readable
from tritonproof.spec import ANY, Tensor
from tritonproof.user_models.value_files import UserSample, in_memory, shape_text

SAMPLES_TOML = "samples.toml"
_MAX_LENGTH = 1 << 20
"""The most pixels of a side, and the most tokens of a text."""
_Length = Annotated[int, msgspec.Meta(ge=1, le=_MAX_LENGTH)]
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class ImageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a picture becomes a row: its size, its layout, and its values, (pixel * scale - mean) / std."""

    layout: Literal["CHW", "HWC"] | None = None
    """The order of the axes; None to infer it from the input's shape."""
    size: tuple[_Length, _Length] | None = None
    """Height and width in pixels, if the model takes any; None for the picture's own."""
    fit: Literal["crop", "stretch"] = "crop"
    """Whether to crop what exceeds the size at both sides, or to stretch the picture."""
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    channels: Literal["RGB", "BGR"] = "RGB"
    """The order of three channels."""
    scale: float | None = None
    """The factor of pixels from 0 to 255; None for 1/255 for floating-point inputs, and for 1 for others."""
    mean: float | tuple[float, ...] = 0.0
    """Subtracted from each value: one number for all channels, or one for each."""
    std: _Positive | tuple[_Positive, ...] = 1.0
    """Divides each value: one number for all channels, or one for each."""


class TextSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a text becomes tokens."""

    max_length: _Length | None = None
    """The most tokens of a text, which is cut off; None for the tokenizer's own limit, else 512."""
    padding: Literal["longest", "max_length"] = "longest"
    """Whether to pad all texts to the longest of them, or to `max_length`."""


class SampleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings in samples.toml, a field for each table."""

    image: ImageSettings = ImageSettings()
    text: TextSettings = TextSettings()


def read_settings(*folders: Path) -> SampleSettings:
    """The settings in the samples.toml of the first folder with one, or the defaults. Raises InputError."""
    what, fix = "the settings of samples", "see the tables [image] and [text] in docs/samples.md"
    for path in (folder / SAMPLES_TOML for folder in folders):
        with readable(what, path, fix):
            if path.exists() or path.is_symlink():
                return msgspec.convert(read_toml(path, what, fix), SampleSettings)
    return SampleSettings()


SUFFIXES = (".png", ".jpg", ".jpeg")
_MODES = {3: "RGB", 1: "L", 4: "RGBA"}
"""Pillow's modes by number of channels, the likeliest first: the layout of 3 x 4 x 4 is CHW."""
_opened = functools.partial(
    opened_picture, what="the picture", fix="save it anew as PNG or JPEG", formats=("PNG", "JPEG")
)


def read_pictures(
    folder: Path, files: Mapping[Path, str], inputs: Sequence[Tensor], settings: ImageSettings
) -> list[UserSample]:
    """The samples in `files` below `folder`, each with its stem, for the only input. Raises InputError."""
    if len(inputs) != 1:
        names = ", ".join(tensor.name for tensor in inputs)
        what = f"pictures are the one input of a model, and this one has {names}"
        fix = "prepare the inputs yourself and give NumPy's files"
        raise InputError(what, where=next(iter(files)), fix=fix)
    (tensor,) = inputs
    layout = _layout(tensor, settings, folder)
    channels = dict(zip(layout, tensor.shape, strict=True)).get("C", 1)
    channels = 3 if channels == ANY else channels
    if channels not in _MODES:
        what = f"the input {tensor.name} has {channels} channels as {layout}; pictures have 1, 3 or 4"
        fix = f"change layout below [image] in {SAMPLES_TOML}, or give NumPy's files"
        raise InputError(what, where=folder, fix=fix)
    for name, values in (("mean", settings.mean), ("std", settings.std)):
        if np.size(values) not in (1, channels):
            what = f"{name} has {np.size(values)} numbers for {channels} channels"
            fix = "give one number, or one for each channel"
            raise InputError(what, where=folder / SAMPLES_TOML, fix=fix)
    samples = []
    for path, stem in files.items():
        with _opened(path) as picture:
            # EXIF's orientations from 5 to 8 turn the picture by a quarter.
            is_turned = ANY in tensor.shape and picture.getexif().get(0x0112) in range(5, 9)
            height, width = settings.size or (picture.size if is_turned else picture.size[::-1])
        sizes = {"N": 1, "H": height, "W": width, "C": channels}
        axes = zip(layout, tensor.shape, strict=True)
        shape = tuple(sizes[axis] if length == ANY else length for axis, length in axes)
        read = functools.partial(_read_picture, path, tensor, layout, shape, settings)
        samples.append(UserSample(stem, str(path), {tensor.name: shape}, read))
    return samples


def _layout(tensor: Tensor, settings: ImageSettings, folder: Path) -> str:
    """The order of the axes: HW, CHW or HWC, or any of these after N, an axis of length 1."""
    shape = tensor.shape
    if len(shape) == 4 and shape[0] in (1, ANY):
        return f"N{_layout(dataclasses.replace(tensor, shape=shape[1:]), settings, folder)}"
    if len(shape) == 2:
        return "HW"
    if len(shape) == 3 and settings.layout is not None:
        return settings.layout
    if len(shape) == 3 and shape[0] != shape[2]:
        for count in (*_MODES, ANY):
            if count in (shape[0], shape[2]):
                return "CHW" if shape[0] == count else "HWC"
    what = f"which axes of {tensor.name}, {shape_text(shape)}, are height, width and channels is unclear"
    fix = "give NumPy's files"
    if len(shape) == 3:
        fix = f'write layout = "CHW" (or "HWC") below [image] in {SAMPLES_TOML}, or {fix}'
    raise InputError(what, where=folder, fix=fix)


def _read_picture(
    path: Path, tensor: Tensor, layout: str, shape: tuple[int, ...], settings: ImageSettings
) -> dict[str, Any]:
    from PIL import Image, ImageOps

    sizes = {"C": 1, **dict(zip(layout, shape, strict=True))}
    size = sizes["W"], sizes["H"]
    resampling = Image.Resampling[settings.interpolation.upper()]
    with _opened(path) as picture:
        upright = ImageOps.exif_transpose(picture).convert(_MODES[sizes["C"]])
        resized: Any = ImageOps.fit if settings.fit == "crop" else Image.Image.resize
        pixels = np.asarray(resized(upright, size, resampling)).reshape(sizes["H"], sizes["W"], sizes["C"])
    if settings.channels == "BGR" and sizes["C"] == 3:
        pixels = pixels[..., ::-1]
    is_floating = tensor.dtype.startswith(("FP", "BF"))
    scale = settings.scale if settings.scale is not None else 1 / 255 if is_floating else 1.0
    values = (pixels * scale - np.array(settings.mean)) / np.array(settings.std)
    if not is_floating:
        values = values.round().astype(np.int64)
    return {tensor.name: (values.transpose(2, 0, 1) if layout.endswith("CHW") else values).reshape(shape)}


TOKENIZER = "tokenizer.json"
"""The file of a tokenizer, as Hugging Face's library `tokenizers` writes it."""
TOKENIZER_FILES = (TOKENIZER, "tokenizer_config.json")
"""All files that decide how a text becomes tokens."""
_MAX_TOKENS = 512
"""The most tokens if neither the settings, the model nor the tokenizer give a limit: BERT's limit."""
_EXPORT = "export the model anew"
_TOKENIZER_RESULTS: dict[str, Callable[[Any], Any]] = {
    "input_ids": lambda encoding: encoding.ids,
    "attention_mask": lambda encoding: encoding.attention_mask,
    "token_type_ids": lambda encoding: encoding.type_ids,
    "position_ids": lambda encoding: range(len(encoding.ids)),
}
"""What a tokenizer gives for a text, by the names of inputs in Hugging Face's exports."""


def read_texts(
    files: Mapping[Path, str], inputs: Sequence[Tensor], settings: TextSettings, tokenizer: Path | None
) -> list[UserSample]:
    """The samples in `files`, each with its stem: one for each line that is not empty. `tokenizer` is the
    folder of a token model's tokenizer.json; with it, a tab separates two texts. Raises InputError."""
    lines: list[tuple[str, str, str]] = []  # the name, the location and the text of each
    for path, stem in files.items():
        content = read_text(path, "the texts", "save them as UTF-8, one a line")
        check_count(content.count("\n"), path)
        for number, line in enumerate(content.split("\n"), 1):
            if text := line.removesuffix("\r"):
                lines.append((f"{stem}-{number:04d}", f"{path}:{number}", text))
    if len(inputs) == 1 and inputs[0].dtype == "BYTES":
        (tensor,) = inputs
        shapes = {tensor.name: tuple(1 if length == ANY else length for length in tensor.shape)}

        def read(text: str) -> dict[str, Any]:
            return {tensor.name: np.full(shapes[tensor.name], text.encode(), object)}

        return [UserSample(name, where, shapes, functools.partial(read, text)) for name, where, text in lines]
    if tokenizer is None or any(tensor.name not in _TOKENIZER_RESULTS for tensor in inputs):
        taken = ", ".join(f"{tensor.name} ({tensor.dtype})" for tensor in inputs)
        what = f"texts are for a BYTES input, or for {', '.join(_TOKENIZER_RESULTS)}; the model takes {taken}"
        fix = f"name such inputs so, and put {TOKENIZER} beside the model; or give NumPy's files"
        raise InputError(what, where=next(iter(files)), fix=fix)
    encoded = _encode([text for _, _, text in lines], inputs, settings, tokenizer)
    rows = (
        {tensor.name: np.array(_TOKENIZER_RESULTS[tensor.name](tokens), np.int64) for tensor in inputs}
        for tokens in encoded
    )
    return [in_memory(name, where, row) for (name, where, _), row in zip(lines, rows, strict=True)]


def _encode(
    texts: Sequence[str], inputs: Sequence[Tensor], settings: TextSettings, tokenizer: Path
) -> list[Any]:
    """Each text as tokens of one length: the model's if fixed, else the settings' or tokenizer's."""
    from tokenizers import Tokenizer

    path = tokenizer / TOKENIZER
    with readable("the tokenizer", path, _EXPORT):
        encoder = Tokenizer.from_str(read_text(path, "the tokenizer", _EXPORT))
    config = tokenizer / TOKENIZER_FILES[1]
    written = read_json(config, "the tokenizer's settings", _EXPORT) if config.is_file() else {}
    if not isinstance(written, dict):
        raise InputError("the tokenizer's settings are no JSON object", where=config, fix=_EXPORT)
    truncation, padding = encoder.truncation or {}, encoder.padding
    # Without a limit the library writes 1e30.
    limits = written.get("model_max_length"), truncation.get("max_length")
    valid = (limit for limit in limits if isinstance(limit, int) and 1 <= limit <= _MAX_LENGTH)
    limit = next(valid, _MAX_TOKENS)
    fixed = min((tensor.shape[0] for tensor in inputs if tensor.shape[0] != ANY), default=None)
    cap = fixed or settings.max_length or limit
    fills = fixed is not None or settings.padding == "max_length"
    token = written.get("pad_token")
    token = token.get("content") if isinstance(token, dict) else token
    if padding is None and isinstance(token, str) and (number := encoder.token_to_id(token)) is not None:
        padding = {"pad_id": number, "pad_token": token}
    # As in Hugging Face's own library, the settings' sides come before those of tokenizer.json.
    with readable("the tokenizer's settings", config, _EXPORT):
        side = written.get("truncation_side") or truncation.get("direction", "right")
        encoder.enable_truncation(cap, direction=side)
        if padding is not None:
            side = written.get("padding_side") or padding.get("direction", "right")
            length = {"length": cap if fills else None, "pad_to_multiple_of": None}
            encoder.enable_padding(**{**padding, **length, "direction": side})
    pairs = [tuple(text.split("\t", 1)) if "\t" in text else text for text in texts]
    with readable("a text by the tokenizer", path, _EXPORT):
        encoded = list(encoder.encode_batch(pairs))
    if padding is None and len({len(encoding.ids) for encoding in encoded} | ({cap} if fills else set())) > 1:
        what = "the texts have different numbers of tokens, and the tokenizer names no token to pad them with"
        fix = f'name "pad_token" in {config}, or make all texts as long by max_length in {SAMPLES_TOML}'
        raise InputError(what, where=path, fix=fix)
    return encoded
