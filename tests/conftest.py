"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# A run that decides about a change finds today what it found yesterday; other runs go on searching.
settings.register_profile("decide", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("decide")
