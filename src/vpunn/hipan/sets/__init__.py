"""Rows with several labels: probabilities that some answer lies in a ball, and answer sets; see `_model.SetModel`."""
