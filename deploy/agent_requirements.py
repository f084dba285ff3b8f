"""Print what an agent's process needs of the package's dependencies: the rest is for simulations and figures."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

AGENT = ("numpy", "typer", "rich", "lazy-loader")

if __name__ == "__main__":
    project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
    named = {re.split(r"[<>=!~ ]", line)[0]: line for line in project["dependencies"]}
    print(*(named[name] for name in AGENT), *project["optional-dependencies"]["agents"], sep="\n")
