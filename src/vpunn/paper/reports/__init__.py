"""One module per report: each has ``run(seeds) -> vpunn.report.Report``."""
