"""Private, real Slurm clusters on this machine."""
