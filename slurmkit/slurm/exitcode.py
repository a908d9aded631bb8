"""How a job or a step ended, as Slurm writes it: `code:signal`."""

from __future__ import annotations

from typing import NamedTuple

OUT_OF_MEMORY = 125
"""Stands where a signal would, and is none: the out-of-memory killer struck."""


class ExitCode(NamedTuple):
    """Exit code and signal; at most one of the two is set by Slurm."""

    code: int
    signal: int = 0

    @classmethod
    def parse(cls, text: str) -> ExitCode:
        """Read `3:0`.

        Raises:
            ValueError: names the text.
        """
        code, colon, signal = text.strip().partition(":")
        if not (colon and _is_number(code) and _is_number(signal)):
            raise ValueError(f"not an exit code: {text!r}")
        return cls(int(code), int(signal))

    @property
    def is_success(self) -> bool:
        """Neither a code nor a signal. The state decides whether the job did well."""
        return self.code == 0 and self.signal == 0

    @property
    def status(self) -> int:
        """As a shell would report it: the code, 128 + signal, or 1 for out of memory, as srun has it."""
        if self.code or not self.signal:
            return self.code
        return 1 if self.signal == OUT_OF_MEMORY else 128 + self.signal

    def __str__(self) -> str:
        """Slurm's own form."""
        return f"{self.code}:{self.signal}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
