"""Load points beside other models, in tables, in words and in records."""

import dataclasses

from reports import tables
from reports.record.schema import BesideModel, Estimate, Record
from reports.record.verdicts import beside_text
from reports.words.answers import wrong_answers
from reports.words.shown import shown
from tests import samples

BESIDE = BesideModel(
    "cpu-other-onnx-fp32", 12, Estimate(0.62, 0.58, 0.66), samples.estimate(4.5), samples.estimate(2.5), 8
)


def record(*beside: BesideModel) -> Record:
    return samples.record(loads=(samples.load("online", 16, 1000.0, beside=beside),))


def test_who_slows_a_case_and_by_how_much_is_in_its_tables() -> None:
    table = tables.beside_table([shown(record(BESIDE))])

    (row,) = table.splitlines()[2:]
    for part in ("cpu-other-onnx-fp32", "12", "0.62", "0.58", "4.500 ms", "2.500 ms"):
        assert part in row
    assert table in tables.case_section(shown(record(BESIDE)))
    assert not tables.beside_table([shown(record())])


def test_a_ratio_that_is_known_too_badly_is_not_shown() -> None:
    rough = dataclasses.replace(BESIDE, ratio=Estimate(0.62, 0.2, 1.9))

    for text in (tables.beside_table([shown(record(rough))]), beside_text(rough)):
        assert "0.62" not in text
        assert "not shown" in text


def test_a_wrong_answer_beside_another_model_is_said_with_that_model() -> None:
    wrong = samples.wrong_beside_another(samples.load("online", 16, 1000.0))

    assert "beside cpu-other-onnx-fp32 are wrong" in wrong_answers(wrong)
    assert not tables.beside_table([shown(samples.record(loads=(wrong,)))])
