"""Compiles the modules that an agent runs through in every round, where there is a C compiler.

They are the modules of `agents/round`: plain Python, with a .pxd file beside each that gives the types of its
attributes in C (`numbers` alone is written twice, in Python and in C).
Without a compiler the installation goes on, and agents run the Python. With GOSSAMER_PURE=1 nothing is compiled, and
the wheel is one for every machine.
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
        # Only the sums gain from more, and it takes three times as long to compile.
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
for each in extensions:
    each.optional = True  # cythonize forgets it

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
