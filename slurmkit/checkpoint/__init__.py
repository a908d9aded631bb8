"""Checkpoint layouts: discovery, verification, choice."""
