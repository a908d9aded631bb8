"""Where the command `slurmkit` begins."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. Commands that stay, as `wait` does, turn the collector on again."""
    # Nothing of what a start imports is garbage: searching it all for cycles is a tenth of a submit.
    gc.disable()
    from slurmkit.cli.main import main as run

    run()
