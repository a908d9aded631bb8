"""What wakes up inside a task. Standard library only: it is frozen into the run directory as launch.pyz."""
