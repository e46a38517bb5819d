"""Records to markdown: the published tables of one case, and the summary of many.

A case that has not passed shows no speed: what would show one gives the reason in a sentence instead.
"""

from reports.tables.beside import budget_table, comparison_table
from reports.tables.case import case_section
from reports.tables.points import points_table
from reports.tables.provenance import machine_sentence
from reports.tables.resources import resources_table
from reports.tables.served_settings import configuration_list, parameters_table
from reports.tables.soaks import soak_table
from reports.tables.summary import summary_table
