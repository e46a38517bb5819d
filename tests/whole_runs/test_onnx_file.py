"""A whole run of an exported transformer with tokenizer, texts and labels, without Python code."""

from pathlib import Path

import pytest

from tests.user_models.test_samples import write_tokenizer
from tests.whole_runs.suite import FAST, suite

CLASSES = 3
TEXTS = 24


def export(folder: Path) -> list[str]:
    """Write a BERT of random weights in a folder as Hugging Face's, with dynamic axes and external weights,
    and texts. Returns the lines of the labels: each text's name and the class that the framework finds."""
    import numpy as np
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    from fixtures.frameworks import quietly

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
        num_labels=CLASSES,
        initializer_range=0.3,
    )

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertForSequenceClassification(config).eval()

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.bert(input_ids=input_ids, attention_mask=attention_mask).logits
            return logits

    network = Logits()
    write_tokenizer(folder)
    ids = torch.ones((2, 5), dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=16)}
    with quietly():
        torch.onnx.export(
            network,
            (ids, ids.clone()),  # the exporter makes a tensor that comes twice one input
            str(folder / "model.onnx"),
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_shapes=(axes, axes),
            dynamo=True,
            external_data=True,
            verbose=False,
        )
    generator = np.random.default_rng(0)
    numbers = [generator.integers(1, 3, size=generator.integers(1, 16)).tolist() for _ in range(TEXTS)]
    lines = [" ".join(" ab"[number] for number in indices) for indices in numbers]
    (folder / "texts").mkdir()
    (folder / "texts" / "text.txt").write_text("\n".join(lines) + "\n")
    labels = []
    for place, indices in enumerate(numbers, 1):
        row = torch.tensor([indices])
        with torch.inference_mode():
            labels.append(f"text-{place:04d},{int(network(row, torch.ones_like(row)).argmax())}")
    return labels


@pytest.mark.campaign
def test_exported_folder_is_measured_with_texts_and_labels(tmp_path: Path) -> None:
    export_folder = tmp_path / "export"
    labels = export(export_folder)
    (export_folder / "labels.csv").write_text("\n".join(labels))
    run = suite(
        *("--onnx", f"texts={export_folder}", "--samples", str(export_folder / "texts")),
        *("--labels", str(export_folder / "labels.csv"), "--metric", "top-1", "--floor", "0.95"),
        *FAST,
        "-k",
        "texts and fp32 and not efficiency",
        repos=tmp_path / "repos",
        results=tmp_path / "results",
    )
    assert run.status == 0, run.text
    record = run.record("cpu-texts-onnx-fp32")
    assert record.accuracy is not None
    top_1, agreement = record.accuracy.scores
    assert (top_1.metric, agreement.metric) == ("top-1", "agreement")
    # The labels are the framework's for each text alone: padded and batched texts must get the same.
    assert top_1.served == 1.0
    assert top_1.limits[0].value == 0.95
    assert record.loads
