"""All tables of one case: offline, online, what serving costs, what a search found, and what grew in a soak."""

from reports.record.schema import LoadSetting
from reports.tables.beside import beside_table, budget_table, comparison_table
from reports.tables.points import certified_table, composing_table, points_table
from reports.tables.resources import resources_table
from reports.tables.served_settings import configuration_list, parameters_table
from reports.tables.soaks import soak_section
from reports.words.answers import conversation_text
from reports.words.labels import accelerator, device
from reports.words.latency_budget import search_paragraph
from reports.words.markdown import text
from reports.words.serving_cost import efficiency_section
from reports.words.shown import Shown


def case_section(record: Shown) -> str:
    """Headings, configuration, parameters and tables of a case: offline, online, what serving costs, what a
    search within a latency budget found, and what grew in a soak."""
    sections = [scenario_section(record, scenario) for scenario in ("offline", "online")]
    if record.conversation is not None:
        asked = f"#### Conversation: {text(device(record))}, {text(_engine(record))}"
        sections = [asked, text(f"{conversation_text(record.conversation)}.")]
    sections.append(efficiency_section(record))
    if found := search_paragraph(record):
        sections += ["#### Within a latency budget", text(found)]
    sections.append(soak_section(record))
    return "\n\n".join(filter(None, sections))


def scenario_section(record: Shown, scenario: str) -> str:
    """Heading, configuration, parameters and tables of one scenario, `offline` or `online`."""
    batching = {
        "offline": "Static batching, one request in flight. The dynamic batcher is off, so queue delay and "
        "preferred batch sizes do not apply. Latencies are in milliseconds.",
        "online": f"Dynamic batching; {_samples_per_request(record)}. Latencies are in milliseconds.",
    }
    if record.build.as_found:
        batching = {
            "offline": "Whole batches, one request in flight, by the model's own settings. Latencies are in milliseconds.",
            "online": f"By the model's own settings; {_samples_per_request(record)}. Latencies are in milliseconds.",
        }
    precision = f" with {record.case.precision.upper()}" if record.case.precision else ""
    blocks = [
        f"#### {scenario.capitalize()}: {text(device(record))}, {text(_engine(record))}{precision}",
        configuration_list(record, scenario),
        parameters_table(record, scenario),
        batching[scenario],
        points_table(record, scenario),
        certified_table(record, scenario),
        composing_table(record, scenario),
        resources_table(record, scenario),
    ]
    if beside := beside_table([record], scenario):
        blocks += ["Beside other models under load on the same server, measured in turns:", beside]
    if budgets := budget_table([record], scenario):
        blocks += ["Latency budgets:", budgets]
    if compared := "" if record.no_speed else comparison_table([record], scenario):
        blocks += ["Compared with another build, by throughput, or at a request rate by latency:", compared]
    return "\n\n".join(filter(None, blocks))


def _engine(record: Shown) -> str:
    if record.case.format == "tf-trt":
        return "TF-TRT"
    return " ".join(filter(None, (record.build.engine, accelerator(record.case))))


def _samples_per_request(record: Shown) -> str:
    points: tuple[LoadSetting, ...] = (*record.loads, *record.hidden)
    batches = sorted({at.batch for at in points if at.scenario == "online"}) or [1]
    return f"client batch size {', '.join(map(str, batches))}"
