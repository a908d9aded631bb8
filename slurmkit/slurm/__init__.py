"""All that talks to Slurm."""
