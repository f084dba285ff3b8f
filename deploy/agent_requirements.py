"""Print what an agent's process needs of the package's dependencies: the rest is for simulations and figures."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

AGENT = ("numpy", "lazy-loader")

if __name__ == "__main__":
    project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {re.split(r"[<>=!~ ]", line)[0]: line for line in project["dependencies"]}
    own = [line for line in extras["agents"] if not line.startswith("gossamer[")]
    print(*(named[name] for name in AGENT), *extras["cli"], *own, sep="\n")
