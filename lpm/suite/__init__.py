"""The suite: one scorecard for any bonus, from runs in five environments under many kinds of noise."""
