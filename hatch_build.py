"""Builds the compiled inner loops into the broker's wheel, or into the tree of an editable install.

Where there is no compiler, or it fails, the wheel is built without them and Python does the same; with
GRAPEVINE_KERNEL=required that is an error instead. CFLAGS are added to the compiler's words.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = {"matching/kernel.c": "_kernel", "overlay/data/runs.c": "_runs", "daemon/packing.c": "_packing"}


class KernelHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("GRAPEVINE_NO_KERNEL"):
            return
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        for name, module in SOURCES.items():
            source = Path(self.root) / name
            built = source.with_name(f"{module}{suffix}")
            try:
                compile_kernel(source, built)
            except (OSError, subprocess.SubprocessError) as reason:
                built.unlink(missing_ok=True)
                if os.environ.get("GRAPEVINE_KERNEL") == "required":
                    raise
                self.app.display_warning(f"{name} is not compiled, Python does the same: {reason}")
                continue
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append("/" + built.relative_to(self.root).as_posix())


def compile_kernel(source: Path, built: Path) -> None:
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_paths()["include"]
    part = built.with_name(f".{built.name}.{os.getpid()}")  # two installs at once must not see half a file
    flags = ["-O3", "-shared", "-fPIC", f"-I{include}", *shlex.split(os.environ.get("CFLAGS", ""))]
    subprocess.run(
        [*compiler, *flags, str(source), "-o", str(part)], check=True, capture_output=True, timeout=120
    )
    part.replace(built)
