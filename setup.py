"""Compiles the modules that an agent runs through in every round, where there is a C compiler.

They are plain Python, with a .pxd file beside each that gives the types of its attributes in C (`_numbers` alone is
written twice, in Python and in C). Without a compiler the installation goes on, and agents run the Python.
"""

from __future__ import annotations

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

ROUND = ["_numbers", "feed", "ledger", "messages", "rounds", "turn", "wire", "transports._rings"]


def extension(name: str) -> Extension:
    suffix = "pyx" if name == "_numbers" else "py"
    return Extension(
        f"gossamer.agents.{name}",
        [f"src/gossamer/agents/{name.replace('.', '/')}.{suffix}"],
        # Only the sums gain from more, and it takes three times as long to compile.
        extra_compile_args=["-O3" if name == "_numbers" else "-O1", "-g0"],
    )


extensions = cythonize(
    [extension(name) for name in ROUND],
    build_dir="build",
    include_path=["src"],
    compiler_directives={"language_level": "3", "annotation_typing": False},
    nthreads=os.cpu_count(),
)
for each in extensions:
    each.optional = True  # cythonize forgets it

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
