"""The run directory and its event log: the only state that slurmkit has.

Records are named tuples in this room: `status`, `logs` and `wait` must start in little more than click does,
and to make a frozen dataclass takes a millisecond, five times as long.
"""
