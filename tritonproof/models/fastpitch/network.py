"""FastPitch's network and weights: encoder, duration and pitch predictors, length regulation, decoder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tritonproof.data import spectrogram
from tritonproof.data import symbols as alphabet
from tritonproof.data.synthetic_speech import MAX_FRAMES, MAX_SYMBOLS, Utterance, utterances
from tritonproof.frameworks import pytorch
from tritonproof.models import _shared
from tritonproof.spec import FrameworkModel

if TYPE_CHECKING:
    import torch
    from torch import nn

SEED = 20200518
MICRO_WEIGHTS = Path(__file__).with_name("fastpitch-micro.safetensors")
_NOT_WEIGHTS = {"pitch_mean", "pitch_std", "encoder.pos_emb.inv_freq", "decoder.pos_emb.inv_freq"}
MAX_DURATION = 75
"""The most frames that a single symbol can take, NVIDIA's default."""


class Sizes(NamedTuple):
    """The sizes of a network: its largest numbers of symbols and of frames, and the sizes of its layers."""

    symbols: int
    frames: int
    width: int
    layers: int
    heads: int
    head_width: int
    inner: int
    predictor: int


FULL = Sizes(symbols=128, frames=1024, width=384, layers=6, heads=1, head_width=64, inner=1536, predictor=256)
"""The published checkpoint's sizes, and the deployment's most symbols. 1024 frames are eight for each symbol;
LJSpeech's speaker takes 5.7 on average (23 h 55 min for 1,308,678 characters), and 870 frames at most."""
MICRO = Sizes(MAX_SYMBOLS, MAX_FRAMES, width=64, layers=2, heads=2, head_width=32, inner=128, predictor=64)


def network(sizes: Sizes) -> "nn.Module":
    """FastPitch of the given sizes: encoder, predictors, length regulation, decoder.

    The number of frames is fixed: a product with a mask gives each frame its symbol, so that traced, scripted
    and exported graphs are equal. The published deployment decodes up to the longest utterance of each batch,
    which tracing would fix to the example's. Speech of more frames is cut, and its length says so; frames
    past an utterance's length are zero (published: a constant, the last layer's bias).
    """
    import torch
    import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
    from torch import nn

    symbols, frames, width, layers, heads, head_width, inner, predictor = sizes

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads, self.head_width = heads, head_width
            self.qkv_net = nn.Linear(width, 3 * heads * head_width)
            self.o_net = nn.Linear(heads * head_width, width, bias=False)
            self.layer_norm = nn.LayerNorm(width)

        def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
            q, k, v = [
                part.unflatten(2, [self.heads, self.head_width]).transpose(1, 2)
                for part in self.qkv_net(x).chunk(3, dim=2)
            ]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
            return self.layer_norm(x + self.o_net(y.transpose(1, 2).flatten(2)))

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.CoreNet = nn.Sequential(
                nn.Conv1d(width, inner, 3, padding=1), nn.ReLU(), nn.Conv1d(inner, width, 3, padding=1)
            )
            self.layer_norm = nn.LayerNorm(width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # As published, without a mask between two convolutions, here and in the predictors: the last
            # symbol, or frame, sees a little of the padding, as in training.
            return self.layer_norm(x + self.CoreNet(x.transpose(1, 2)).transpose(1, 2))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dec_attn = Attention()
            self.pos_ff = FeedForward()

        def forward(self, x: torch.Tensor, mask: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
            return self.pos_ff(self.dec_attn(x, hidden) * mask)

    class Transformer(nn.Module):
        positions: torch.Tensor

        def __init__(self, length: int) -> None:
            super().__init__()
            # A table of sines, then cosines, of falling frequencies, [length, width], in place of NVIDIA's
            # `inv_freq`, whose products with positions FP16 rounds to nonsense.
            frequencies = 1 / 10_000 ** (torch.arange(0, width, 2) / width)
            angles = torch.outer(torch.arange(length), frequencies)
            table = torch.cat([angles.sin(), angles.cos()], dim=1)
            self.register_buffer("positions", table, persistent=False)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            # Finite, so that a row without symbols gives numbers; -30,000 fits FP16.
            hidden = (mask - 1).mul(30_000).unsqueeze(1).transpose(2, 3)
            x = x + self.positions * mask
            for layer in self.layers:
                x = layer(x, mask, hidden)
            return x

    class NormedConvolution(nn.Module):
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.conv = nn.Conv1d(inputs, predictor, 3, padding=1)
            self.norm = nn.LayerNorm(predictor)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(F.relu(self.conv(x)).transpose(1, 2)).transpose(1, 2)

    class Predictor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(NormedConvolution(width), NormedConvolution(predictor))
            self.fc = nn.Linear(predictor, 1)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (self.fc(self.layers((x * mask).transpose(1, 2)).transpose(1, 2)) * mask).squeeze(2)

    class FastPitch(nn.Module):
        symbol_numbers: torch.Tensor
        frame_numbers: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.encoder = Transformer(symbols)
            self.encoder.word_emb = nn.Embedding(len(alphabet.SYMBOLS), width, padding_idx=0)
            self.duration_predictor = Predictor()
            self.pitch_predictor = Predictor()
            self.pitch_emb = nn.Conv1d(1, width, 3, padding=1)
            self.decoder = Transformer(frames)
            self.proj = nn.Linear(width, spectrogram.BANDS)
            self.frames, self.longest = frames, MAX_DURATION
            # Integers, which .half() and .to(bfloat16) leave alone.
            self.register_buffer("symbol_numbers", torch.arange(symbols), persistent=False)
            self.register_buffer("frame_numbers", torch.arange(frames), persistent=False)

        def predict(
            self, ids: torch.Tensor, count: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            """The encoding, log durations and pitch of symbols [N, T] and their number [N, 1]."""
            spoken = (ids != 0) & (self.symbol_numbers < count)
            mask = spoken.unsqueeze(2).to(self.proj.weight.dtype)
            x = self.encoder(self.encoder.word_emb(ids), mask)
            return x, self.duration_predictor(x, mask), self.pitch_predictor(x, mask)

        def decode(
            self, x: torch.Tensor, durations: torch.Tensor, pitch: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            """The mel [N, bands, frames] and its frames [N, 1], of encoding, whole durations and pitch."""
            x = x + self.pitch_emb(pitch.unsqueeze(1)).transpose(1, 2)
            ends = durations.cumsum(1)  # in FP32, which is exact and which TensorRT has
            starts = ends - durations
            number = self.frame_numbers.unsqueeze(1)
            inside = (starts.unsqueeze(1) <= number) & (number < ends.unsqueeze(1))
            count = ends[:, -1:].clamp(max=self.frames)
            mask = (self.frame_numbers < count).unsqueeze(2).to(x.dtype)
            y = self.decoder(torch.matmul(inside.to(x.dtype), x), mask)
            return (self.proj(y) * mask).transpose(1, 2), count

        def forward(
            self, ids: torch.Tensor, count: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
            x, log_durations, pitch = self.predict(ids, count)
            # Rounded half up and clamped as published; in FP32, where FP16 would round twice.
            durations = (log_durations.float().exp() - 1).clamp(0, self.longest).add(0.5).floor()
            mel, frame_count = self.decode(x, durations, pitch)
            return mel.float(), frame_count.long(), durations.long(), pitch.float()

    return FastPitch()


# --- its weights --------------------------------------------------------------------------------------------


def from_checkpoint(model: "nn.Module", path: Path) -> FrameworkModel:
    """`model` with exactly a checkpoint's weights.

    Of NVIDIA's two sets it takes `state_dict`: the published deployment takes the averaged `ema_state_dict`
    only with `--ema`, which its README does not give. A checkpoint may also hold the pitch statistics, which
    only changes of a voice need, and the positions' frequencies, which are constants of the code.
    """
    return pytorch.from_checkpoint(model, path, lambda key: None if key in _NOT_WEIGHTS else key)


def load_full(checkpoint: Path | None) -> FrameworkModel:
    """The full network from a checkpoint of NVIDIA's layout, or with seeded random weights."""
    if checkpoint is not None:
        return from_checkpoint(network(FULL), checkpoint)
    return pytorch.random_weights(_initialised, SEED)


def _initialised() -> "nn.Module":
    """Random weights with which symbols take 2 to 8 frames and mels are as loud as speech."""
    import torch

    full: Any = network(FULL)
    # Both layers' inputs are normalised, so each output is normal with this mean and about this deviation.
    for layer, mean, deviation in ((full.duration_predictor.fc, 1.85, 0.2), (full.proj, -5.5, 1.5)):
        torch.nn.init.normal_(layer.weight, std=deviation / layer.in_features**0.5)
        torch.nn.init.constant_(layer.bias, mean)
    return full


# --- how the micro size is trained --------------------------------------------------------------------------

_BATCH = 32
_PITCH_NOISE = 0.05
"""Added to the given pitch, so that the decoder learns to tolerate the predictor's errors."""
_DURATION_WEIGHT = 5.0
"""The weight of log durations in the loss: their errors are small, and each must be right after rounding."""


def train_micro(steps: int = 800) -> "Mapping[str, torch.Tensor]":
    """Train the committed weights: `steps` batches of 32, a good minute on one core."""
    import torch

    torch.manual_seed(SEED)
    model: Any = network(MICRO)
    data = [torch.from_numpy(array) for array in _arrays(utterances("training"))]
    step = _shared.training_step(model.parameters(), 6e-3, steps, decay=0.01, norm=1.0)
    for _step in range(steps):
        chosen = torch.randperm(len(data[0]))[:_BATCH]
        step(_loss(model, [array[chosen] for array in data]))
    return model.state_dict()


def _arrays(spoken: Sequence[Utterance]) -> tuple[np.ndarray, ...]:
    """The symbols [N, symbols] and their number, their durations and pitch [N, symbols], and the mels
    [N, 80, frames] of the utterances, padded with zeros."""
    texts, counts = alphabet.padded([alphabet.numbers_of(u.text) for u in spoken], MICRO.symbols)
    durations, pitch = (np.zeros(texts.shape, np.float32) for _ in range(2))
    mels = np.zeros((len(texts), spectrogram.BANDS, MICRO.frames), np.float32)
    for i, utterance in enumerate(spoken):
        durations[i, : len(utterance.text)] = utterance.durations
        pitch[i, : len(utterance.text)] = utterance.pitch
        mels[i, :, : utterance.mel.shape[1]] = utterance.mel
    return texts, counts, durations, pitch, mels


def _loss(model: Any, batch: "Sequence[torch.Tensor]") -> "torch.Tensor":
    """Mean squared errors of mels, pitch and log durations, as in the original."""
    import torch

    symbols, counts, durations, pitch, mels = batch
    x, log_durations, predicted_pitch = model.predict(symbols, counts)
    spoken = symbols != 0
    mel, frame_counts = model.decode(x, durations, pitch + _PITCH_NOISE * torch.randn_like(pitch) * spoken)
    pitch_loss = (predicted_pitch - pitch).square()[spoken].mean()
    duration_loss = (log_durations - durations.log1p()).square()[spoken].mean()
    # Frames past the end are zero in both.
    mel_loss = (mel - mels).square().sum() / (frame_counts.sum() * mels.shape[1])
    return mel_loss + pitch_loss + _DURATION_WEIGHT * duration_loss
