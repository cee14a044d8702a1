"""One module per command of `lpm`; each has `run(args)`, which parses, calls and prints."""
