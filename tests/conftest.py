"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# A run that decides about a change finds today what it found yesterday; other runs go on searching. How long
# an example takes says more of the machine than of the code.
settings.register_profile("search", deadline=None)
settings.register_profile("decide", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("decide" if os.environ.get("CI") else "search")

# The size of a terminal is that of the one a test makes: pytest-xdist would give all programs another.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
