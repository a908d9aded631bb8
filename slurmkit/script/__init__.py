"""From a job file to the text of an sbatch script, and back."""
