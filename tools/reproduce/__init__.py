"""The papers' figures, measured again: one module a paper, rows of (figure, setting, metric, paper, ours)."""
