"""TiEBe, the Timely Events Benchmark: load it, ask a model, judge its answers, score them.

Everything exported here is loaded when it is first used, so that `import tiebe` is immediate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiebe.answers import answer
    from tiebe.evaluation import evaluate
    from tiebe.judges import Judge, judge
    from tiebe.load import load_tiebe
    from tiebe.regions import REGIONS
    from tiebe.reports import report
    from tiebe.scores import score

__all__ = ["REGIONS", "Judge", "answer", "evaluate", "judge", "load_tiebe", "report", "score"]

# Where each exported name lives. No module bears the name of an exported function, or importing
# the module would put it in the function's place.
_HOME = {
    "REGIONS": "regions",
    "Judge": "judges",
    "answer": "answers",
    "evaluate": "evaluation",
    "judge": "judges",
    "load_tiebe": "load",
    "report": "reports",
    "score": "scores",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tiebe' has no attribute {name!r}")
    value = getattr(import_module(f"tiebe.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _HOME.keys())
