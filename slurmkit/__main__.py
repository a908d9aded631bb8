"""`python -m slurmkit` is the command `slurmkit`."""

from slurmkit.cli.start import main

main()
