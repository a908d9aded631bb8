"""The file names of a run directory. Everything else asks here; nobody joins names by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class RunPaths(NamedTuple):
    """The files of one run. `root` is absolute; its name is the run id."""

    root: Path

    @property
    def run_id(self) -> str:
        """The run id, unique by the file system's word: the directory bears it."""
        return self.root.name

    @property
    def job_toml(self) -> Path:
        """The job file as it was resolved."""
        return self.root / "job.toml"

    def old_job_toml(self, number: int) -> Path:
        """The job file of the submits up to that one, where a resume has changed it since."""
        return self.root / f"job.{number}.toml"

    def old_job_tomls(self) -> list[Path]:
        """The job files that a resume has changed."""
        return sorted(self.root.glob("job.*.toml"))

    @property
    def job_sbatch(self) -> Path:
        """The script that Slurm runs."""
        return self.root / "job.sbatch"

    def script(self, tag: str) -> Path:
        """The script of the submit that `tag` marks; its path has the tag, for sites that keep no comment."""
        return self.job_sbatch if tag == self.run_id else self.submits / tag / self.job_sbatch.name

    @property
    def submits(self) -> Path:
        """The folder of what later submits of the run handed to sbatch."""
        return self.root / "submits"

    @property
    def environment(self) -> Path:
        """The variables that the job was submitted with, where the run may be submitted again by itself."""
        return self.root / "environment.json"

    @property
    def lock(self) -> Path:
        """Locked by whoever decides what becomes of the run while none of its jobs does."""
        return self.root / "lock"

    @property
    def launch_archive(self) -> Path:
        """What starts inside each task."""
        return self.root / "launch.pyz"

    @property
    def run_json(self) -> Path:
        """Who, when, where: written once, before the submit."""
        return self.root / "run.json"

    @property
    def events(self) -> Path:
        """Everything that happened, one JSON object a line."""
        return self.root / "events.jsonl"

    @property
    def all_logs(self) -> Path:
        """The folder of all logs, the batch script's own among them."""
        return self.root / "logs"

    def batch_log(self, job_id: str) -> Path:
        """What the batch script and the agent say, unless the job file has an `output` of its own."""
        return self.all_logs / f"{job_id}.out"

    def logs(self, attempt: str) -> Path:
        """The folder of the rank logs of one attempt."""
        return self.all_logs / attempt

    def rank_log(self, attempt: str, rank: int) -> Path:
        """What one rank printed."""
        return self.logs(attempt) / f"rank-{rank:05d}.out"

    def progress(self, attempt: str) -> Path:
        """How far one attempt is: replaced every few seconds while its step runs."""
        return self.logs(attempt) / "progress.json"

    def checks(self, attempt: str) -> Path:
        """The folder of what each node's check before the start found."""
        return self.root / "checks" / attempt

    def stacks(self, attempt: str, step: int) -> Path:
        """The folder of the stacks of all ranks of a step start that hung."""
        return self.root / "stacks" / attempt / str(step)

    @property
    def verdicts(self) -> Path:
        """What was found when checkpoints were verified, so that it need not be found again."""
        return self.root / "checkpoints.json"

    def request(self, attempt: str, step: int) -> Path:
        """The file that is there once the ranks of a step start are asked for a checkpoint."""
        return self.root / "requests" / attempt / str(step)

    @property
    def all_exits(self) -> Path:
        """The folder of all exit records."""
        return self.root / "exit"

    def exit(self, attempt: str, step: int) -> Path:
        """The folder of the exit records of one step start, counted from 0 within the attempt."""
        return self.all_exits / attempt / str(step)

    def exit_record(self, attempt: str, step: int, rank: int) -> Path:
        """How one rank ended."""
        return self.exit(attempt, step) / f"rank-{rank:05d}.json"


def attempt_name(job_id: str | int, restart: int) -> str:
    """The name of one start of the run by Slurm, e.g. `1234-0`; `restart` is SLURM_RESTART_COUNT, or 0."""
    return f"{job_id}-{restart}"
