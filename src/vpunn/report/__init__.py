"""Reports: self-contained pages about trees and models, and what they are made of, as data.

`report_tree` and `report_model` make a page about any tree or classifier; `triage` finds where a classifier goes wrong on test
rows: the hardest branches, the confusions and the over-confident subtrees.
"""

from vpunn.report._page import Report
from vpunn.report._sections import report_model, report_tree
from vpunn.report._triage import Triage, triage

__all__ = ["Report", "Triage", "report_model", "report_tree", "triage"]
