"""The run directory and its event log: the only state that slurmkit has."""
