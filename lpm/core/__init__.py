"""The contract: what flows, what a bonus is, how it is found and how it is checked."""
