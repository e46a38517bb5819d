"""ResNet50 v1.5: its arithmetic, the checkpoints it loads, the images it sees, and its micro size."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from PIL import Image

from fixtures.errors import InputError, NotAvailableError
from fixtures.models import all_models, resnet50
from fixtures.models.resnet50 import samples as samples_of
from fixtures.spec import Arrays, Model, Samples

State = dict[str, torch.Tensor]


def reference(state: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """ResNet50 v1.5 written apart from the product, as a function of a state dictionary."""

    def normed(x: torch.Tensor, name: str) -> torch.Tensor:
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, state[f"{name}.weight"], state[f"{name}.bias"], eps=1e-5)

    x = F.relu(normed(F.conv2d(x, state["conv1.weight"], stride=2, padding=3), "bn1"))
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    for stage, blocks in enumerate((3, 4, 6, 3), start=1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            stride = 2 if block == 0 and stage > 1 else 1
            y = F.relu(normed(F.conv2d(x, state[f"{at}.conv1.weight"]), f"{at}.bn1"))
            y = F.conv2d(y, state[f"{at}.conv2.weight"], stride=stride, padding=1)
            y = F.relu(normed(y, f"{at}.bn2"))
            y = normed(F.conv2d(y, state[f"{at}.conv3.weight"]), f"{at}.bn3")
            if block == 0:
                x = normed(
                    F.conv2d(x, state[f"{at}.downsample.0.weight"], stride=stride), f"{at}.downsample.1"
                )
            x = F.relu(x + y)
    return F.linear(x.mean(dim=(2, 3)), state["fc.weight"], state["fc.bias"])


@pytest.fixture(scope="module")
def state() -> State:
    """Every key of torchvision's and NVIDIA's layout in its published shape, with random values."""
    generator = torch.Generator().manual_seed(0)
    found: State = {}

    def conv(name: str, outer: int, inner: int, kernel: int) -> None:
        scale = (2 / (inner * kernel**2)) ** 0.5
        found[f"{name}.weight"] = torch.randn(outer, inner, kernel, kernel, generator=generator) * scale

    def norm(name: str, channels: int) -> None:
        found[f"{name}.weight"] = torch.rand(channels, generator=generator) * 0.5 + 0.25
        found[f"{name}.bias"] = torch.randn(channels, generator=generator) * 0.1
        found[f"{name}.running_mean"] = torch.randn(channels, generator=generator) * 0.1
        found[f"{name}.running_var"] = torch.rand(channels, generator=generator) + 0.5
        found[f"{name}.num_batches_tracked"] = torch.tensor(7)

    conv("conv1", 64, 3, 7)
    norm("bn1", 64)
    inner = 64
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            for number, (outer, i, kernel) in enumerate(
                ((channels, inner, 1), (channels, channels, 3), (4 * channels, channels, 1)), start=1
            ):
                conv(f"{at}.conv{number}", outer, i, kernel)
                norm(f"{at}.bn{number}", outer)
            if block == 0:
                conv(f"{at}.downsample.0", 4 * channels, inner, 1)
                norm(f"{at}.downsample.1", 4 * channels)
            inner = 4 * channels
    found["fc.weight"] = torch.randn(1000, 2048, generator=generator) * 0.02
    found["fc.bias"] = torch.randn(1000, generator=generator) * 0.1
    return found


def later_keys(state: State) -> State:
    """The key style of NVIDIA's later code: stages called layers.0 to layers.3."""
    return {
        key if not key.startswith("layer") else f"layers.{int(key[5]) - 1}{key[6:]}": value
        for key, value in state.items()
    }


def saved(value: object, path: Path) -> Path:
    torch.save(value, path)
    return path


def full(checkpoint: Path) -> torch.nn.Module:
    network: torch.nn.Module = resnet50.load_full(checkpoint).network
    return network


def test_published_layouts_give_the_reference_networks_outputs(state: State, tmp_path: Path) -> None:
    x = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    expected = reference(state, x)
    layouts: dict[str, object] = {
        "flat": state,
        "later": later_keys(state),
        "parallel": {f"module.{key}": value for key, value in state.items()},
        "wrapped": {"epoch": 250, "state_dict": {f"module.{k}": v for k, v in later_keys(state).items()}},
        "early": {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")},
    }
    for name, layout in layouts.items():
        network = full(saved(layout, tmp_path / f"{name}.pth.tar"))
        with torch.inference_mode():
            torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-4, msg=name)


def test_a_checkpoint_is_named_in_the_record_with_its_digest(state: State, tmp_path: Path) -> None:
    weights = resnet50.load_full(saved(state, tmp_path / "published.pth.tar"))
    assert weights.trained
    assert weights.origin == f"published.pth.tar, sha256 {weights.digest[:12]}"
    assert not weights.network.training


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        resnet50.load_full(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_a_missing_key_is_named(state: State, tmp_path: Path) -> None:
    del state["layer2.0.conv2.weight"]
    try:
        assert "misses layer2.0.conv2.weight" in refused(saved(state, tmp_path / "x.pt"))
    finally:
        state["layer2.0.conv2.weight"] = torch.zeros(128, 128, 3, 3)


def test_an_unexpected_key_is_named(state: State, tmp_path: Path) -> None:
    assert "unexpected head.weight" in refused(
        saved(state | {"head.weight": torch.zeros(1)}, tmp_path / "x.pt")
    )


def test_a_wrong_shape_is_named(state: State, tmp_path: Path) -> None:
    text = refused(saved(state | {"fc.weight": torch.zeros(10, 2048)}, tmp_path / "x.pt"))
    assert "fc.weight is (10, 2048), expected (1000, 2048)" in text


def test_a_truncated_file_is_refused(state: State, tmp_path: Path) -> None:
    path = saved(state, tmp_path / "x.pt")
    path.write_bytes(path.read_bytes()[:1_000_000])
    assert "truncated" in refused(path)


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all", b"\x80\x04damaged"])
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    assert "not a PyTorch file" in refused(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "x.pt")


def test_a_folder_is_told_from_a_file_that_is_missing(tmp_path: Path) -> None:
    assert "is a folder; it has to be a file" in refused(tmp_path)


def test_a_checkpoint_without_a_state_dictionary_is_refused(tmp_path: Path) -> None:
    assert "no state dictionary" in refused(saved({"epoch": 3}, tmp_path / "x.pt"))


class Exploit:
    """Pickled, it runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


@pytest.mark.parametrize("by", ["torch", "pickle"])
def test_code_in_a_checkpoint_is_never_run(by: str, tmp_path: Path) -> None:
    path, proof = tmp_path / "x.pt", tmp_path / "it-ran"
    if by == "torch":
        torch.save({"a": Exploit(proof)}, path)
    else:
        path.write_bytes(pickle.dumps({"a": Exploit(proof)}))
    assert "possibly code" in refused(path)
    assert not proof.exists()


# --- images ------------------------------------------------------------------------------------------------


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """A folder in ImageNet's layout: 1000 synsets, five images in two of them."""
    for number in range(1000):
        (tmp_path / f"n{number:08d}").mkdir()
    for number, synset in enumerate((3, 3, 3, 998, 998)):
        pixels = np.random.default_rng(number).integers(0, 256, (300 + number, 260, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"n{synset:08d}" / f"image_{number}.png")
    return tmp_path


def test_every_image_counts_and_is_labelled_by_its_synset(imagenet: Path) -> None:
    samples = resnet50.imagenet("evaluation", imagenet)
    assert len(samples) == 5
    assert samples.labels is not None
    assert samples.labels.tolist() == [3, 3, 3, 998, 998]
    assert samples.ids[3] == "n00000998/image_3.png"
    assert samples.load([4, 0])[resnet50.INPUT].shape == (2, 3, 224, 224)


def test_train_and_val_are_told_apart(imagenet: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("both")
    (root / "val").symlink_to(imagenet)
    assert len(resnet50.imagenet("evaluation", root)) == 5
    with pytest.raises(NotAvailableError, match="calibrated on training images only"):
        resnet50.imagenet("training", root)


def test_preprocessing_is_resize_256_crop_224_and_normalisation(tmp_path: Path) -> None:
    # A grey image stays grey, so only the arithmetic of the values is left.
    Image.new("L", (500, 400), 128).save(tmp_path / "grey.png")
    pixels = samples_of.preprocess(tmp_path / "grey.png")
    assert pixels.shape == (3, 224, 224)
    assert pixels.dtype == np.float32
    np.testing.assert_allclose(
        pixels[:, 0, 0], (128 / 255 - np.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225], rtol=1e-5
    )


@pytest.mark.parametrize("size", [(512, 256), (256, 512), (1000, 333), (100, 90)])
def test_the_crop_is_the_centre_of_the_shorter_side_at_256(size: tuple[int, int], tmp_path: Path) -> None:
    # Red grows to the right and green downwards, so the crop's edges tell where it was taken.
    width, height = size
    ramp = np.zeros((height, width, 3), np.uint8)
    ramp[..., 0] = np.linspace(0, 255, width)[None, :]
    ramp[..., 1] = np.linspace(0, 255, height)[:, None]
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    pixels = samples_of.preprocess(tmp_path / "ramp.png")
    red = (pixels[0] * 0.229 + 0.485)[112]
    green = (pixels[1] * 0.224 + 0.456)[:, 112]
    for values, side in ((red, width), (green, height)):
        scaled = side * 256 / min(size)
        expected = ((scaled - 224) / 2 / scaled, 1 - (scaled - 224) / 2 / scaled)
        assert values[0] == pytest.approx(expected[0], abs=0.01)
        assert values[-1] == pytest.approx(expected[1], abs=0.01)


# Width and height of an image, to which torchvision resizes it, and where it begins to crop: int(256 * long / short)
# for the longer side, int(round((side - 224) / 2.0)) for the margin, where Python rounds a half to the even number
# (torchvision/transforms/functional.py, _compute_resized_output_size and center_crop; 0.9.0, which NVIDIA's container
# 21.03 has, writes the first in functional_pil.py, resize).
CROPS = [
    ((500, 375), (341, 256), (58, 16)),
    ((375, 500), (256, 341), (16, 58)),
    ((500, 333), (384, 256), (80, 16)),
    ((500, 334), (383, 256), (80, 16)),
    ((500, 332), (385, 256), (80, 16)),
    ((334, 500), (256, 383), (16, 80)),
    ((640, 427), (383, 256), (80, 16)),
    ((500, 400), (320, 256), (48, 16)),
    ((1600, 1065), (384, 256), (80, 16)),
    ((256, 343), (256, 343), (16, 60)),
    ((300, 200), (384, 256), (80, 16)),
    ((120, 90), (341, 256), (58, 16)),
]


@pytest.mark.parametrize(("size", "resized", "first"), CROPS, ids=str)
def test_a_crop_is_torchvisions_to_the_pixel(
    size: tuple[int, int], resized: tuple[int, int], first: tuple[int, int], tmp_path: Path
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "noise.png")
    found = (
        samples_of.preprocess(tmp_path / "noise.png").transpose(1, 2, 0) * samples_of.STD + samples_of.MEAN
    )
    left, top = first
    box = (left, top, left + 224, top + 224)
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop(box)
    np.testing.assert_allclose(found * 255, np.asarray(expected), atol=1e-3)


@pytest.mark.parametrize("layout", ["empty", "flat", "no images", "a subset"])
def test_a_folder_that_is_not_imagenet_is_refused(layout: str, tmp_path: Path) -> None:
    if layout == "flat":
        Image.new("RGB", (10, 10)).save(tmp_path / "a.jpeg")
    for number in range({"no images": 1000, "a subset": 10}.get(layout, 0)):
        (tmp_path / f"n{number:08d}").mkdir()
    with pytest.raises(InputError) as raised:
        resnet50.imagenet("evaluation", tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "cure:" in str(raised.value)


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.jpeg"
    path.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"broken\.jpeg"):
        samples_of.preprocess(path)


# --- random weights, and the micro size --------------------------------------------------------------------


def test_random_weights_are_the_same_every_time_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second = (resnet50.load_full(None) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not first.trained
    for a, b in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        # Drawn, but for BatchNorm's statistics: those are computed, and rounded as the kernels of the day do.
        torch.testing.assert_close(a, b)


@pytest.fixture(scope="module")
def micro() -> Model:
    return next(model for model in all_models() if model.name == "resnet50-micro")


def test_held_out_digits_are_stratified_and_never_trained_on(micro: Model) -> None:
    training, evaluation = (micro.samples(split, None, None) for split in ("training", "evaluation"))
    assert len(evaluation) == 500
    assert len(training) + len(evaluation) == 1797
    assert not set(training.ids) & set(evaluation.ids)
    assert evaluation.labels is not None
    counts = np.bincount(evaluation.labels, minlength=10)
    assert counts.min() >= 45
    assert counts.max() <= 55


def top_1(model: Model, outputs: Arrays, samples: Samples) -> float:
    """The first metric of outputs."""
    kept = model.keep(outputs)
    return float(model.metrics[0].score(kept, samples.labels, kept).mean())


def floor(model: Model) -> float:
    """The first metric's absolute limit in FP32."""
    return model.metrics[0].limits["fp32"].value


def test_the_committed_weights_reach_their_floor(micro: Model) -> None:
    samples = micro.samples("evaluation", None, None)
    assert samples.labels is not None
    outputs = micro.run(micro.load(None).network, samples.load(range(len(samples))))
    assert top_1(micro, outputs, samples) >= floor(micro)


def test_weights_perturbed_by_a_tenth_fall_below_the_floor(micro: Model) -> None:
    """The floor is close enough to the score that a damaged model does not pass."""
    samples = micro.samples("evaluation", None, None)
    assert samples.labels is not None
    network = micro.load(None).network
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * parameter.std(correction=0) * torch.randn_like(parameter)
    outputs = micro.run(network, samples.load(range(len(samples))))
    assert top_1(micro, outputs, samples) < floor(micro)
