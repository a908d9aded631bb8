"""From a job file to the text of an sbatch script, and back."""

from __future__ import annotations

from slurmkit.script.rendering import Rendered, render
from slurmkit.script.step import program, srun_arguments

__all__ = ["Rendered", "program", "render", "srun_arguments"]
