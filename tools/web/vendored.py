"""Fetches again what the page takes from npm, and rewrites its hashes: `make vendor`."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

PLACE = Path(__file__).parent / "static" / "vendor"
TAKEN = {
    "package/dist/uPlot.iife.min.js": "uPlot.iife.min.js",
    "package/dist/uPlot.min.css": "uPlot.min.css",
    "package/LICENSE": "uPlot.LICENSE.txt",
}


def main() -> int:
    listed = (PLACE / "vendor.toml").read_text()
    package = tomllib.loads(listed)["uplot"]
    wanted = f"{package['npm']}@{package['version']}"
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            ["npm", "pack", wanted, "--silent"], cwd=directory, check=True, stdout=subprocess.DEVNULL
        )
        archive = next(Path(directory).glob("*.tgz"))
        digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != package["integrity"]:
            print(f"{wanted} is {digest}, vendor.toml says {package['integrity']}", file=sys.stderr)
            return 1
        with tarfile.open(archive) as packed:
            for member, name in TAKEN.items():
                file = packed.extractfile(member)
                assert file is not None, member
                (PLACE / name).write_bytes(file.read())
    for name in TAKEN.values():
        found = hashlib.sha256((PLACE / name).read_bytes()).hexdigest()
        listed = re.sub(rf'("{re.escape(name)}" = )"[0-9a-f]*"', rf'\g<1>"{found}"', listed)
    (PLACE / "vendor.toml").write_text(listed)
    print(f"{wanted}: {', '.join(TAKEN.values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
