"""sacct's fields: what a header may name, and what their texts look like. Names stand in lower case."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "reserved": "planned",  # renamed in 23.02
        "reservedraw": "plannedraw",
        "ncpus": "alloccpus",
        "nodes": "nnodes",
    }
)
"""Other names of a field; sacct prints the one that was asked for."""

FREE = (
    "jobname", "comment", "workdir", "submitline", "admincomment", "systemcomment", "extra", "reason",
    "constraints", "wckey", "reservation", "stdout", "stderr", "stdin", "account", "user", "group",
)  # fmt: skip
"""Fields that may hold any text, the likeliest to do so first."""

_COUNT = r"\d*"
_TIME = r"(?:\d*|Unknown|None|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*)"
_CLOCK = r"(?:(?:\d+-)?(?:\d+:)?\d+:\d+(?:\.\d+)?|UNLIMITED|Partition_Limit|INVALID|)"
_TRES = r"(?:[\w/:.-]+=[^,=\s]*(?:,[\w/:.-]+=[^,=\s]*)*)?"

SHAPES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: re.compile(shape, re.ASCII)
        for name, shape in (
            ("jobid", r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?(?:\.[\w+]+)?"),
            ("jobidraw", r"\d+(?:\.[\w+]+)?"),
            ("state", r"(?:[A-Z_]+(?: by \S+)?)?"),
            ("exitcode", r"(?:\d+:\d+)?"),
            ("workdir", r"(?:/[\s\S]*)?"),
            *((name, _TIME) for name in ("submit", "eligible", "start", "end")),
            *((name, _CLOCK) for name in ("elapsed", "suspended", "timelimit", "totalcpu")),
            *((name, _COUNT) for name in ("elapsedraw", "nnodes", "alloccpus", "ntasks", "uid", "restarts")),
            *((name, _TRES) for name in ("alloctres", "reqtres", "tresusageintot")),
        )
    }
)
"""The whole text of fields that cannot hold any: they tell whether a broken line was put together rightly."""

_KNOWN = """
account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq avediskread
avediskwrite avepages averss avevmsize blockid cluster comment constraints consumedenergy consumedenergyraw
container cputime cputimeraw dbindex derivedexitcode elapsed elapsedraw eligible end exitcode extra
failednode flags gid group jobid jobidraw jobname layout licenses maxdiskread maxdiskreadnode
maxdiskreadtask maxdiskwrite maxdiskwritenode maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss
maxrssnode maxrsstask maxvmsize maxvmsizenode maxvmsizetask mcslabel mincpu mincpunode mincputask ncpus
nnodes nodelist nodes ntasks originalsluid partition planned plannedcpu plannedcpuraw priority qos qosraw
qosreq reason
reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus reqgres reqmem reqnodes reqreservation reqtres
reservation reservationid reserved restarts resvcpu resvcpuraw segmentsize sluid start state stderr stdin
stdout submit submitline suspended systemcomment systemcpu timelimit timelimitraw totalcpu tresusageinave
tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode tresusageinmintask
tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin
tresusageoutminnode tresusageoutmintask tresusageouttot uid user usercpu wckey wckeyid workdir
"""
KNOWN = frozenset(_KNOWN.split())
"""All fields of sacct from 20.11 to 26.05."""


def canonical(name: str) -> str:
    """The name by which a field goes here: lower case, without a width, of two names the newer."""
    plain = name.strip().lower().partition("%")[0]
    return ALIASES.get(plain, plain)
