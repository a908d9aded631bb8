"""The job file: its model, its loading, its units.

Names are loaded when they are first used: a command that asks only for the profile pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmkit.spec.gres import gpu_count, tasks
    from slurmkit.spec.json_schema import schema
    from slurmkit.spec.loading import Loaded, load, load_resolved
    from slurmkit.spec.model import JobSpec
    from slurmkit.spec.options import OPTIONS
    from slurmkit.spec.profile import Profile, read_profile
    from slurmkit.spec.resolve import explain, resolved_toml

__all__ = [
    "OPTIONS",
    "JobSpec",
    "Loaded",
    "Profile",
    "explain",
    "gpu_count",
    "load",
    "load_resolved",
    "read_profile",
    "resolved_toml",
    "schema",
    "tasks",
]

_HOMES = {
    "OPTIONS": "options",
    "JobSpec": "model",
    "Loaded": "loading",
    "Profile": "profile",
    "explain": "resolve",
    "gpu_count": "gres",
    "load": "loading",
    "load_resolved": "loading",
    "read_profile": "profile",
    "resolved_toml": "resolve",
    "schema": "json_schema",
    "tasks": "gres",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
