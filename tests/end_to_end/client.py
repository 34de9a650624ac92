"""Makes the calls that it reads as JSON and prints what they return; a process of its own.

Clients of the Hub read their environment when they are imported, hence the process.
"""

import json
import sys
from pathlib import Path
from typing import Any

from datasets import load_dataset

from builder.publish import publish
from tiebe.load import download_release, load_tiebe


def call(name: str, arguments: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    try:
        if name == "publish":
            folder, repo = arguments
            return {"lines": list(publish(Path(folder), repo, **options).lines())}
        if name == "download_release":
            folder = download_release(*arguments)
            files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
            return {"folder": str(folder), "files": files}
        load = load_tiebe if name == "load_tiebe" else load_dataset
        rows = list(load(*arguments, **options))
    except Exception as error:  # what is raised is what the test wants to know
        return {"error": type(error).__name__, "told": str(error)}
    return {
        "keys": [[row["id"], row["language"]] for row in rows],
        "versions": sorted({row["version"] for row in rows}),
        "texts": sum(bool(row.get("text")) for row in rows),
    }


for line in sys.stdin:
    print(json.dumps(call(*json.loads(line))), flush=True)
