"""sacct's texts in stages, in SQL: each text by itself, then what several of them tell together.

A stage adds columns to the rows of the one before: `x_` are texts out of longer ones, `a_` values of single
texts, `d_` what follows from several values. DuckDB works out those that are asked for, and no others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from slurmkit.accounting import sql_values as sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import tzinfo

NO_NODES = "('', 'None assigned', 'None', '(null)', 'N/A')"
PER_CPU = 2**51
"""2^31 MiB: the bit that marks memory per CPU in Slurm's 32-bit figures. No node has as much."""

NAMES = {
    "submit": "Submit", "eligible": "Eligible", "start": "Start", "end": "End", "elapsed": "Elapsed",
    "elapsedraw": "ElapsedRaw", "suspended": "Suspended", "timelimit": "Timelimit",
    "timelimitraw": "TimelimitRaw", "totalcpu": "TotalCPU", "maxrss": "MaxRSS", "reqmem": "ReqMem",
    "exitcode": "ExitCode", "nnodes": "NNodes", "allocnodes": "AllocNodes", "alloccpus": "AllocCPUS",
    "reqcpus": "ReqCPUS", "reqnodes": "ReqNodes", "ntasks": "NTasks", "jobidraw": "JobIDRaw", "uid": "UID",
    "consumedenergy": "ConsumedEnergy", "consumedenergyraw": "ConsumedEnergyRaw", "restarts": "Restarts",
    "alloctres": "AllocTRES", "reqtres": "ReqTRES", "tresusageintot": "TRESUsageInTot", "jobid": "JobID",
}  # fmt: skip
"""Fields whose texts can be wrong, as sacct prints their names."""

_IN_TRES = {
    "alloctres": {
        "mem": "x_mem", "billing": "x_billing", "gres/gpu": "x_gpu",
        "gres/shard": "x_shard",
    },
    "reqtres": {"mem": "x_req_mem", "gres/gpu": "x_req_gpu"},
    "tresusageintot": {
        "mem": "x_used", "cpu": "x_used_cpu", "gres/gpuutil": "x_utilisation", "gres/gpumem": "x_gpu_memory",
    },
}  # fmt: skip


class Texts(NamedTuple):
    """What a relation of texts has: its fields, by sacct's names in lower case, and the zone of its times.

    `known` is a table that `resources_once` made of these fields, or empty.
    """

    fields: Collection[str]
    zone: tzinfo
    known: str = ""


def stages(rows: str, texts: Texts) -> str:
    """The rows of a relation of texts with all stages' columns."""
    keys = _allocation(texts.fields) if texts.known else []
    # Texts of a file lie far apart: one that is searched often is first copied to where its neighbours are.
    near = [f"{name} || '' AS {name}" for name in _IN_TRES if name in texts.fields and name not in keys]
    stage = f"(SELECT * REPLACE ({', '.join(near)}) FROM {rows})" if near else rows
    if keys:
        found = f"(SELECT *, TRUE AS k_found FROM {texts.known})"
        stage = f"(SELECT * FROM {stage} LEFT JOIN {found} USING ({', '.join(keys)}))"
    for made in _made(texts):
        stage = f"(SELECT *, {_listed(made)} FROM {stage})"
    return stage


def resources_once(rows: str, fields: Collection[str]) -> str | None:
    """A SELECT of what is allocated in some rows, each text of it once; None where the fields tell nothing.

    Millions of jobs ask for some hundred different things: what they are need not be read in each of them.
    """
    keys = _allocation(fields)
    if not keys:
        return None
    once = f"(SELECT DISTINCT {', '.join(keys)} FROM {rows})"
    cut, read = _allocated(fields)
    stage = f"(SELECT *, {_listed(cut)} FROM {once})"
    names = ", ".join(f"{name} AS k_{name}" for name in (*cut, *read))
    return f"SELECT {', '.join(keys)}, {names} FROM (SELECT *, {_listed(read)} FROM {stage})"


def _allocation(fields: Collection[str]) -> list[str]:
    return [name for name in ("alloctres", "allocgres") if name in fields]


def _allocated(fields: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What follows from the texts of `_allocation` alone: the cuts, and what is read of them."""
    atoms = _tres_atoms(fields)
    names = _IN_TRES["alloctres"].values()
    cut = {name: text for name, text in _cut(fields).items() if name in names}
    return cut, {name: atoms[name] for name in (*(f"a{name[1:]}" for name in names), "a_gpu_type")}


def _made(texts: Texts) -> Iterator[dict[str, str]]:
    """The stages' columns, each stage's by name."""
    stages = [_cut(texts.fields), _atoms(texts)]
    if texts.known:
        for stage, known in zip(stages, _allocated(texts.fields), strict=True):
            for name, text in known.items():
                stage[name] = f"CASE WHEN k_found THEN k_{name} ELSE {text} END"
    yield from stages
    yield from _derived(texts.fields)


def first(choices: Iterable[tuple[str, str]], fields: Collection[str], otherwise: str = "NULL") -> str:
    """The first known of those whose field is there."""
    found = [text for name, text in choices if name in fields]
    return f"coalesce({', '.join(found)})" if found else otherwise


def late(field: str, resource: str) -> str:
    """A count in TRES, which is worked out only in rows where nothing else tells it."""
    return sql.count(sql.in_tres(field, resource))


def memory(fields: Collection[str]) -> str:
    """Bytes allocated; more than a node can have is none, and a problem."""
    if "alloctres" in fields:
        return (
            f"CASE WHEN a_mem < {PER_CPU} THEN a_mem"
            f" WHEN a_mem // {PER_CPU} < {late('alloctres', 'node')} THEN a_mem END"
        )
    return asked_memory(fields) if "reqmem" in fields else "NULL"


def asked_memory(fields: Collection[str]) -> str:
    """Per node (n) and per CPU (c) up to Slurm 20.11; with Slurm's own mark, per CPU whatever is said."""
    cpus = first(
        [("reqcpus", "a_reqcpus"), ("alloccpus", "a_alloccpus"), ("reqtres", late("reqtres", "cpu"))], fields
    )
    nodes = first(
        [("nnodes", "a_nnodes"), ("reqnodes", "a_reqnodes"), ("reqtres", late("reqtres", "node"))], fields
    )
    return (
        f"CASE WHEN a_reqmem >= {PER_CPU} AND a_reqmem < {2 * PER_CPU} THEN (a_reqmem - {PER_CPU}) * {cpus}"
        f" WHEN ends_with(reqmem, 'c') THEN a_reqmem * {cpus}"
        f" WHEN ends_with(reqmem, 'n') THEN a_reqmem * {nodes} ELSE a_reqmem END"
    )


def problems(columns: Iterable[str], texts: Texts) -> str:
    """What could not be read of the fields that these columns are made of."""
    found = dict(_unread(" ".join(columns), texts))
    if not found:
        return "NULL::VARCHAR"
    # Few records have any: what there is to say is worked out for those alone.
    said = ", ".join(f"CASE WHEN {sign} THEN {text} END" for sign, text in found.items())
    return f"CASE WHEN {' OR '.join(found)} THEN concat_ws(' ', {said}) END"


def _unread(columns: str, texts: Texts) -> Iterator[tuple[str, str]]:
    """Signs that a field was not read, and what is said of it."""
    needed = _needed(columns, texts)
    for name, shown in NAMES.items():
        if f"a_{name}" in needed:
            yield sql.is_unread(f"a_{name}", _quoted(name)), f"'{shown}=' || {_quoted(name)}"
    for field, resources in _IN_TRES.items():
        for resource, cut in resources.items():
            if f"a{cut[1:]}" in needed and field in texts.fields:
                yield sql.is_unread(f"a{cut[1:]}", cut), f"'{NAMES[field]}={resource}=' || {cut}"
    if "a_mem" in needed and "alloctres" in texts.fields:
        yield f"(a_mem >= {PER_CPU} AND {memory(texts.fields)} IS NULL)", "'AllocTRES=mem=' || x_mem"
    if "d_odd" in needed and "end" in texts.fields:
        yield "d_odd", "'End=' || \"end\""


def _quoted(name: str) -> str:
    return f'"{name}"'


def _needed(text: str, texts: Texts) -> set[str]:
    """Names of the stages that an expression stands on."""
    made: dict[str, str] = {}
    for stage in _made(texts):
        made |= stage
    found: set[str] = set()
    waiting = [text]
    while waiting:
        for name in set(re.findall(r"\b[axd]_\w+", waiting.pop())) - found:
            found.add(name)
            waiting.append(made.get(name, ""))
    return found


def _listed(made: Mapping[str, str]) -> str:
    return ", ".join(f"{text} AS {name}" for name, text in made.items())


def _cut(fields: Collection[str]) -> dict[str, str]:
    """What is cut out of a longer text, so that each is looked for once."""
    return {
        name: sql.in_tres(field, resource) if field in fields else "NULL::VARCHAR"
        for field, resources in _IN_TRES.items()
        for resource, name in resources.items()
    }


def _atoms(texts: Texts) -> dict[str, str]:
    fields, zone = texts.fields, texts.zone
    made: dict[str, str] = {
        f"a_{name}": sql.moment(f'"{name}"', zone)
        for name in ("submit", "eligible", "start", "end")
        if name in fields
    }
    made |= {
        f"a_{name}": sql.count(f'"{name}"')
        for name in (
            "elapsedraw", "nnodes", "allocnodes", "alloccpus", "reqcpus", "reqnodes", "ntasks", "restarts",
            "uid",
        )
        if name in fields
    }  # fmt: skip
    made |= {
        f"a_{name}": sql.seconds(name) for name in ("elapsed", "suspended", "totalcpu") if name in fields
    }
    made |= {f"a_{name}": sql.limit(name) for name in ("timelimit", "timelimitraw") if name in fields}
    if "maxrss" in fields:
        made["a_maxrss"] = sql.memory("maxrss", "B")
    if "consumedenergyraw" in fields:
        made["a_consumedenergyraw"] = sql.count("consumedenergyraw")
    if "consumedenergy" in fields:
        made["a_consumedenergy"] = sql.joules("consumedenergy")
    if "exitcode" in fields:
        made |= {"a_exitcode": _part_of_exit(1), "a_signal": _part_of_exit(2)}
    if "reqmem" in fields:
        made["a_reqmem"] = sql.memory("rtrim(reqmem, 'nc')", "M")
    return made | _tres_atoms(fields)


def _part_of_exit(part: int) -> str:
    return f"try_cast(split_part(exitcode, ':', {part}) AS INTEGER)"


def _tres_atoms(fields: Collection[str]) -> dict[str, str]:
    made = {"a_billing": sql.count("x_billing")}
    made |= {f"a{name[1:]}": sql.memory(name, "M") for name in ("x_mem", "x_req_mem")}
    made |= {f"a{name[1:]}": sql.memory(name, "B") for name in ("x_used", "x_gpu_memory")}
    made |= {"a_used_cpu": sql.seconds("x_used_cpu"), "a_utilisation": "try_cast(x_utilisation AS DOUBLE)"}
    for name, field, old in (("gpu", "alloctres", "allocgres"), ("req_gpu", "reqtres", "reqgres")):
        choices = [(field, _of_types(field, "gpu", f"x_{name}")), (old, sql.gres_gpus(old))]
        made[f"a_{name}"] = f"coalesce({first(choices, fields)}, {_none_of(field, fields)})"
    shards = _of_types("alloctres", "shard", "x_shard") if "alloctres" in fields else "NULL"
    made["a_shard"] = f"coalesce({shards}, {_none_of('alloctres', fields)})"
    made["a_gpu_type"] = _gpu_type(fields)
    return made


def _gpu_type(fields: Collection[str]) -> str:
    kind = sql.gres_types("allocgres") if "allocgres" in fields else "''"
    if "alloctres" in fields:
        kind = f"CASE WHEN contains(alloctres, 'gres/gpu') THEN {sql.tres_types('alloctres')} ELSE {kind} END"
    return kind


def _none_of(field: str, fields: Collection[str]) -> str:
    """Zero of what TRES does not name, where there is TRES at all."""
    return f"CASE WHEN {field} <> '' THEN 0 END" if field in fields else "NULL"


def _of_types(field: str, resource: str, whole: str) -> str:
    return f"CASE WHEN contains({field}, 'gres/{resource}') THEN {sql.tres_sum(field, resource, whole)} END"


def _derived(fields: Collection[str]) -> Iterator[dict[str, str]]:
    elapsed = first([("elapsedraw", "a_elapsedraw"), ("elapsed", "a_elapsed::BIGINT")], fields)
    start, end = (f"a_{name}" if name in fields else "NULL::TIMESTAMPTZ" for name in ("start", "end"))
    suspended = "a_suspended::BIGINT" if "suspended" in fields else "NULL::BIGINT"
    state = "upper(split_part(state, ' ', 1))" if "state" in fields else "NULL::VARCHAR"
    yield {
        "d_said": f"{elapsed}::BIGINT", "d_suspended": suspended, "d_state": state, "d_end": end,
        "d_ran": _has_run(fields, elapsed),
    }  # fmt: skip
    lasted = "((epoch_us(d_end) - epoch_us(d_start)) // 1000000)"
    yield {"d_start": f"CASE WHEN d_ran THEN {start} END"}
    yield {
        "d_elapsed": f"CASE WHEN NOT d_ran THEN 0 WHEN d_said IS NOT NULL THEN d_said"
        f" ELSE greatest({lasted} - coalesce(d_suspended, 0), 0) END",
        # Slurm charges what lies between, but for what was suspended.
        "d_odd": f"coalesce({lasted} < 0 OR {lasted} < d_said - 1"
        f" OR {lasted} > d_said + d_suspended + 1, FALSE)",
    }
    yield {
        "d_until": "CASE WHEN d_start IS NULL THEN d_end WHEN d_end IS NULL OR d_odd THEN"
        " make_timestamptz(epoch_us(d_start) + (d_elapsed + coalesce(d_suspended, 0)) * 1000000)"
        " ELSE d_end END"
    }


def _has_run(fields: Collection[str], elapsed: str) -> str:
    """Slurm gives a job that was cancelled while it waited a start as well, but no nodes."""
    terms = ["a_start IS NOT NULL"] if "start" in fields else []
    if "nodelist" in fields:
        terms.append(f"nodelist NOT IN {NO_NODES}")
    elif "state" in fields:
        waits = "state = 'PENDING' OR starts_with(state, 'CANCELLED')"
        terms.append(f"NOT (({waits}) AND coalesce({elapsed}, 0) = 0)")
    return f"({' AND '.join(terms)})" if terms else "TRUE"
