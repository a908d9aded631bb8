"""Nodes and free GPUs."""
