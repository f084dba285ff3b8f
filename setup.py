"""Compile the modules that an agent runs in every round, if there is a C compiler.

They are the modules of `agents/round`: plain Python, each with a .pxd file that gives the types of its attributes in C
(`numbers` alone is written twice, in Python and in C). Without a compiler the installation continues, and agents run
the Python code. With GOSSAMER_PURE=1 nothing is compiled, and one wheel serves all machines.
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROUND = Path("src/gossamer/agents/round")


def extension(types: Path) -> Extension:
    written = types.with_suffix(".pyx")
    return Extension(
        f"gossamer.agents.round.{types.stem}",
        [str(written if written.exists() else types.with_suffix(".py"))],
        # Only the sums gain from more optimization, and it takes three times as long to compile.
        extra_compile_args=["-O3" if written.exists() else "-O1", "-g0"],
    )


pure = os.environ.get("GOSSAMER_PURE") == "1"
extensions = cythonize(
    [] if pure else [extension(types) for types in sorted(ROUND.glob("*.pxd"))],
    build_dir="build",
    include_path=["src"],
    compiler_directives={"language_level": "3", "annotation_typing": False},
    nthreads=os.cpu_count(),
)
for module in extensions:
    module.optional = True  # cythonize drops this attribute, so it is set here

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
