"""The compiled inner loops, built with AddressSanitizer and UndefinedBehaviorSanitizer, under their fuzzers.

`python -m tests.fuzz.sanitized --frames 200000` builds the C files with the sanitizers and every warning an
error, then runs the frame fuzzer and the generated cases of packing, runs and matching with them in place of
the usual ones. A read past an end, a use after free or an overflow ends the run with the sanitizer's report.
First a module with a planted overflow must be caught: a sanitizer that is not there finds nothing either.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(c for package in ("matching", "overlay", "daemon") for c in (ROOT / package).rglob("*.c"))
WARNINGS = ("-Wall", "-Wextra", "-Werror")
SANITIZERS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
)
GENERATED = (
    "tests/unit/test_packing.py",
    "tests/unit/test_runs.py",
    "tests/unit/test_matching_kernel.py",
    "tests/unit/test_matching_dense.py",
    "tests/unit/test_matching_index.py",
)
PLANTED = """
#include <Python.h>
static PyObject *past_the_end(PyObject *Py_UNUSED(self), PyObject *place) {
    char *bytes = PyMem_RawMalloc(8);
    memset(bytes, 1, 8);
    long found = bytes[PyLong_AsLong(place)];
    PyMem_RawFree(bytes);
    return PyLong_FromLong(found);
}
static PyMethodDef methods[] = {{"past_the_end", past_the_end, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_planted", .m_size = -1, .m_methods = methods,
};
PyMODINIT_FUNC PyInit__planted(void) { return PyModule_Create(&definition); }
"""
# Found before the modules of the tree, in every child; a module that is not used would prove nothing.
INSTEAD = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import spec_from_file_location

BUILT = {built!r}

class Sanitized:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in BUILT:
            return spec_from_file_location(name, BUILT[name], loader=ExtensionFileLoader(name, BUILT[name]))
        return None

sys.meta_path.insert(0, Sanitized)
"""


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def build(source: Path, built: Path, flags: tuple[str, ...] = SANITIZERS) -> None:
    include = sysconfig.get_paths()["include"]
    words = [
        *compiler(),
        *WARNINGS,
        *flags,
        "-shared",
        "-fPIC",
        f"-I{include}",
        str(source),
        "-o",
        str(built),
    ]
    subprocess.run(words, check=True, timeout=120)


def build_all(folder: Path) -> dict[str, str]:
    """By the name under which a module is imported: its file."""
    built = {}
    for source in SOURCES:
        module = f"_{source.stem}"
        build(source, folder / f"{module}.so")
        built[".".join((*source.relative_to(ROOT).parent.parts, module))] = str(folder / f"{module}.so")
    planted = folder / "planted.c"
    planted.write_text(PLANTED)
    build(planted, folder / "_planted.so")
    built["_planted"] = str(folder / "_planted.so")
    return built


def environment(folder: Path) -> dict[str, str]:
    """The sanitizer's runtime comes before everything, and Python's own allocator hides nothing from it."""
    runtime = subprocess.run(
        [*compiler(), "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        "HYPOTHESIS_PROFILE": "quick",
    }


def check_planted(env: dict[str, str]) -> None:
    words = [sys.executable, "-c", "import _planted; print(_planted.past_the_end(12))"]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if ran.returncode == 0 or "heap-buffer-overflow" not in ran.stderr:
        raise SystemExit(
            f"the planted overflow was not seen: is the sanitizer's runtime there?\n{ran.stderr}"
        )
    print("planted overflow: seen")


def check_used(env: dict[str, str]) -> None:
    """All three are the sanitized ones in the children."""
    code = (
        "import daemon._packing as p, matching._kernel as k, overlay.data._runs as r; "
        "from daemon.compiled import missing; "
        "assert not missing(), missing(); print(p.__file__, k.__file__, r.__file__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    folder = env["PYTHONPATH"].split(os.pathsep)[0]
    assert ran.stdout.count(folder) == len(SOURCES), ran.stdout
    print(f"{len(SOURCES)} C files: built with {' '.join((*WARNINGS, *SANITIZERS[:1]))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build_all(folder)
        (folder / "sitecustomize.py").write_text(INSTEAD.format(built=built))
        env = environment(folder)
        check_planted(env)
        check_used(env)
        fuzz = ["-m", "tests.fuzz.frames", "--frames", str(arguments.frames), "--seed", str(arguments.seed)]
        tests = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *GENERATED]
        for words in (fuzz, tests):
            subprocess.run([sys.executable, *words], env=env, cwd=ROOT, check=True)
    print("sanitizers: nothing found")


if __name__ == "__main__":
    main()
