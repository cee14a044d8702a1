"""What every package may use: "did you mean", versions, and how to install an extra. The standard library only."""
