"""Private, real Slurm clusters on this machine.

`slurmkit.testbed.native.up` brings one up, `down` takes it down; the pytest plugin's fixtures
`slurm_testbed` and `make_testbed` do both for tests.
"""
