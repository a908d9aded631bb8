"""Carries a GPU training job through its whole life on a Slurm cluster."""

__version__ = "0.1.0"
