"""`python -m lpm` is the command `lpm`; so is `torchrun ... -m lpm train ...`."""

from lpm.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
