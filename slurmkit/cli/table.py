"""Every command: name, module, group, summary. `slurmkit --help` reads only this and imports no command."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One line of the table. `module` exports a click command called `command`."""

    name: str
    module: str
    group: str
    summary: str


GROUPS = ("Write a job", "Run it", "Watch it", "Afterwards", "Clusters")
"""The life cycle, in the order in which `--help` shows it."""

COMMANDS = (
    Command("render", "slurmkit.cli.render", "Write a job", "Print the sbatch script that a job file makes."),
    Command("lint", "slurmkit.cli.lint", "Write a job", "Say what is wrong or unwise in a job."),
    Command("mesh", "slurmkit.cli.mesh", "Write a job", "Draw which rank is where, and with whom."),
    Command("import", "slurmkit.cli.importing", "Write a job", "Turn an sbatch script into a job file."),
    Command("schema", "slurmkit.cli.schema", "Write a job", "Print the JSON Schema of the job file."),
    Command("rehearse", "slurmkit.cli.rehearse", "Run it", "Try a job's resume with a short real job."),
    Command("submit", "slurmkit.cli.submit", "Run it", "Submit a job file; the run id is what it prints."),
    Command("resume", "slurmkit.cli.resume", "Run it", "Submit a run again, from where it is."),
    Command("supervise", "slurmkit.cli.supervise", "Run it", "Carry on with runs whose jobs are gone."),
    Command("cancel", "slurmkit.cli.cancel", "Run it", "Cancel the jobs of runs."),
    Command("status", "slurmkit.cli.status", "Watch it", "Show the state of runs, and why it is so."),
    Command("watch", "slurmkit.cli.watch", "Watch it", "Watch a run live: progress, slow ranks, log."),
    Command("logs", "slurmkit.cli.logs", "Watch it", "Print what a run wrote, or follow it."),
    Command("wait", "slurmkit.cli.wait", "Watch it", "Wait until runs have ended."),
    Command("show", "slurmkit.cli.show", "Afterwards", "Tell the story of a run: attempts, failures, logs."),
    Command("checkpoints", "slurmkit.cli.checkpoints", "Afterwards", "Say which checkpoints are complete."),
    Command("runs", "slurmkit.cli.runs", "Afterwards", "List runs, or delete those long over."),
    Command("report", "slurmkit.cli.report", "Afterwards", "Say where the hours of a cluster went."),
    Command("accounting", "slurmkit.cli.accounting", "Afterwards", "Keep a copy of Slurm's job records."),
    Command("fabric-check", "slurmkit.cli.fabric_check", "Clusters", "Name the slow node or network path."),
    Command("nodes", "slurmkit.cli.nodes", "Clusters", "Show nodes on which runs failed again and again."),
    Command("doctor", "slurmkit.cli.doctor", "Clusters", "Say whether all is well here, or on nodes."),
    Command("testbed", "slurmkit.cli.testbed", "Clusters", "Start a private, real Slurm cluster here."),
)
