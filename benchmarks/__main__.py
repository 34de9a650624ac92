"""Runs every benchmark in a process of its own: `python -m benchmarks [NAME …]`.

Prints one table of all figures at the end, and keeps them with the hardware in
`benchmarks/figures.json`, where those of benchmarks that were not run stay.
"""

import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.figures import FILE, Figure, table

HERE = Path(__file__).parent
KEPT = HERE / "figures.json"


def machine() -> dict[str, Any]:
    """Returns what the figures were measured on."""
    cpu = memory = ""
    if (info := Path("/proc/cpuinfo")).is_file():
        lines = (line.partition(":") for line in info.read_text().splitlines())
        cpu = next((value.strip() for key, _, value in lines if key.strip() == "model name"), "")
    if hasattr(os, "sysconf"):
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"
    return {
        "system": platform.platform(terse=True),
        "cpu": cpu or platform.machine(),
        "cores": os.cpu_count(),
        "memory": memory,
        "python": platform.python_version(),
    }


def main() -> None:
    """Runs the named benchmarks, or all; exits with 1 when one of them missed its limit."""
    known = sorted(p.stem for p in HERE.glob("*.py") if p.stem[0] != "_" and p.stem != "figures")
    wanted = sys.argv[1:] or known
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    on = machine()
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.is_file() else {}
    missed = []
    for name in wanted:
        print(f"\n== {name}", flush=True)
        load = os.getloadavg()[0]
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
            command = [sys.executable, "-m", f"benchmarks.{name}"]
            done = subprocess.run(command, env=os.environ | {FILE: file.name}, check=False)
            figures = [json.loads(line) for line in file]
        if done.returncode:
            missed.append(name)
        date = dt.datetime.now(dt.UTC).date().isoformat()
        kept[name] = {"date": date, "load": round(load, 1), "on": on, "figures": figures}
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    told = [
        Figure(**{key: row[key] for key in Figure.__slots__})
        for name in sorted(kept)
        for row in kept[name]["figures"]
    ]
    print(f"\n{on['cpu']}, {on['cores']} cores, {on['memory']}, Python {on['python']}\n")
    print(table(told))
    if missed:
        sys.exit(f"\nmissed or failed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
