"""What `import tiebe` gives, and what it does not import."""

import subprocess
import sys

HEAVY = ("datasets", "openai", "numpy", "pandas", "pyarrow", "requests", "scipy", "jinja2")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_tiebe_imports_nothing_heavy() -> None:
    assert run(f"import tiebe, sys; print([m for m in {HEAVY} if m in sys.modules])") == "[]\n"


def test_every_export_stays_what_it_is_whatever_was_imported() -> None:
    code = """
import importlib.util, pkgutil, types, tiebe
for module in pkgutil.walk_packages(tiebe.__path__, "tiebe."):
    ray = module.name == "tiebe.ray_engine" and not importlib.util.find_spec("ray")
    if not ray and not module.name.startswith(("tiebe._data", "tiebe.adapters")):
        importlib.import_module(module.name)
from tiebe import judge
assert callable(judge) and all(
    not isinstance(getattr(tiebe, name), types.ModuleType) for name in tiebe.__all__
)
assert set(tiebe.__all__) <= set(dir(tiebe))
assert judge("Who?", "Ann", "Ann", model="offline").correct
"""
    run(code)
