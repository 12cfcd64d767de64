"""Compiles esbench/load/_hot.c when esbench is installed, if there is a compiler: without one only speed is missing."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

_NAME, _SOURCE = "esbench.load._hot", "esbench/load/_hot.c"


class CompileHot(BuildHookInterface):
    """Puts the extension beside its source, named for the Python that builds it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        # optional: a build that fails is a warning
        extension = Extension(_NAME, [_SOURCE], extra_compile_args=["-O2"], optional=True)
        command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
        command.inplace = True
        with TemporaryDirectory() as folder:
            command.build_temp = command.build_lib = folder
            command.ensure_finalized()
            built = Path(self.root, command.get_ext_fullpath(_NAME))
            built.unlink(missing_ok=True)  # of an earlier source
            if not os.environ.get("ESBENCH_PURE"):
                command.run()
        if built.exists():
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append(f"/{built.relative_to(self.root)}")
