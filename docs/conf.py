"""Sphinx: MyST Markdown, furo. The pages under reference/ are written by docs/generate.py."""

import slurmkit

project = "slurmkit"
author = "The slurmkit authors"
project_copyright = "The slurmkit authors"
release = slurmkit.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"slurmkit {release}"
html_show_copyright = False
