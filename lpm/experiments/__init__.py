"""One module per table or figure of the paper: settings as data, the paper's numbers, a score, a plot."""
