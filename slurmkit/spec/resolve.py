"""A job as resolved: the text that goes into the run directory, and where each value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from slurmkit.spec.convert import OWN
from slurmkit.spec.loading import leaves
from slurmkit.spec.problems import dotted, place

if TYPE_CHECKING:
    from slurmkit.spec.loading import Loaded
    from slurmkit.spec.model import JobSpec


def resolved_tables(spec: JobSpec) -> dict[str, Any]:
    """The job file's tables with every value written out, defaults included; what is None is left out."""
    tables: dict[str, Any] = _without_none(msgspec.to_builtins(spec))
    own = {name: tables.pop(name) for name in OWN}
    tables["resources"] = tables["resources"] | own
    return tables


def resolved_toml(spec: JobSpec) -> str:
    """The job file as resolved: loads again, without any profile, to an equal spec."""
    import tomli_w

    return tomli_w.dumps(resolved_tables(spec))


def explain(loaded: Loaded) -> list[tuple[str, Any, str]]:
    """(key, value, origin) of every value of the job: `job.toml:7:1`, `--set ...`, `built-in default`."""
    rows = []
    for path, value in leaves(resolved_tables(loaded.spec)):
        written = path
        if path == ("resources", "no_requeue") and path not in loaded.merged.sources:
            written = ("resources", "requeue")
        source = loaded.merged.source_of(written) if written in loaded.merged.sources else None
        rows.append((dotted(path), value, place(source, written) if source else "built-in default"))
    return rows


def _without_none(value: Any) -> Any:  # noqa: ANN401  a tree of builtins
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return value
