"""Runs every benchmark, each in a process of its own: `python -m benchmarks [NAME …]`."""

import os
import platform
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Runs the named benchmarks, or all; exits with 1 when one of them missed its floor."""
    known = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem[0] != "_")
    wanted = sys.argv[1:] or known
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    missed = []
    for name in wanted:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            missed.append(name)
    if missed:
        sys.exit(f"\nmissed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
