"""What exists only to reproduce or expose the paper: exhibits, its rules that are shown the answer, and the reports."""
