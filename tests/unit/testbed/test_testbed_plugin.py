"""The plugin costs a pytest run that does not use it next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import sys, pytest
before = set(sys.modules)
import slurmkit.testbed.plugin
import json
print(json.dumps(sorted(set(sys.modules) - before - {"json"})))
"""


def test_importing_the_plugin_imports_nothing_else() -> None:
    answer = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    ours = [name for name in json.loads(answer.stdout) if not name.startswith(("json", "_json"))]
    assert ours == ["slurmkit", "slurmkit.testbed", "slurmkit.testbed.plugin"]
