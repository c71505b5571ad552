"""`python -m daemon.settings`: write the commented default file and the reference page anew."""

from __future__ import annotations

from pathlib import Path

from daemon.settings.reference import default_file, reference_page

ROOT = Path(__file__).resolve().parents[2]
FILES = {ROOT / "daemon" / "default.toml": default_file, ROOT / "docs" / "configuration.md": reference_page}

if __name__ == "__main__":
    for path, write in FILES.items():
        path.write_text(write())
