"""Who may import whom, checked on the source; no module bears the name of an exported function."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tiebe

ROOT = Path(__file__).resolve().parents[1]

# Each module and what it may import of this project, beside errors, records and what they allow.
# A module that is missing here fails the test: say where it stands.
LAYERS: dict[str, set[str]] = {
    "tiebe.errors": set(),
    "tiebe.records": {"tiebe.errors"},
    "tiebe.regions": {"tiebe.errors"},
    "tiebe.models": {"tiebe.errors"},
    "tiebe.resources": {"tiebe.errors"},
    "tiebe.prompts": {"tiebe.errors", "tiebe.resources"},
    "tiebe.journal": {"tiebe.errors"},
    "tiebe.engine": {"tiebe.errors", "tiebe.journal", "tiebe.records"},
    "tiebe.lanes": {"tiebe.engine"},
    "tiebe.functions": {"tiebe.records"},
    "tiebe.llm": {
        "tiebe.engine",
        "tiebe.errors",
        "tiebe.functions",
        "tiebe.journal",
        "tiebe.models",
        "tiebe.records",
    },
    "tiebe.vectors": set(),
    "tiebe.lexical": {"tiebe.vectors"},
    "tiebe.offline": {"tiebe.errors", "tiebe.lexical", "tiebe.vectors"},
    "tiebe.cascade": set(),
    "tiebe.scores": {
        "tiebe.cascade",
        "tiebe.errors",
        "tiebe.models",
        "tiebe.records",
        "tiebe.regions",
    },
}


def modules() -> dict[str, Path]:
    files = [p for top in ("tiebe", "builder") for p in (ROOT / top).rglob("*.py")]
    return {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
        for p in files
    }


def imports(path: Path) -> set[str]:
    """The modules of this project that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{a.name}" for a in node.names} | {node.module}
    known = modules()
    return {name for name in found if name in known and name not in ("tiebe", "builder")}


def test_tiebe_never_imports_the_builder() -> None:
    for name, path in modules().items():
        if name.startswith("tiebe"):
            assert not {i for i in imports(path) if i.startswith("builder")}, name


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_lower_module_imports_only_what_is_below_it(name: str) -> None:
    path = modules().get(name)
    assert path is not None, f"{name} is in the table and not in the tree"
    assert imports(path) <= LAYERS[name]


def test_there_is_no_cycle() -> None:
    graph = {name: imports(path) for name, path in modules().items()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " imports ".join([*above, name])
        if name not in done:
            for below in graph[name]:
                visit(below, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_command_lines_are_imported_by_nobody() -> None:
    allowed = {"builder.cli": {"tiebe.cli"}}
    for name, path in modules().items():
        clis = {i for i in imports(path) if i.endswith(".cli")}
        assert clis <= allowed.get(name, set()), name


def test_no_module_has_the_name_of_an_exported_function() -> None:
    exported = set(tiebe.__all__)
    assert not {n for n in modules() if n.startswith("tiebe.") and n.split(".")[1] in exported}


def test_no_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "common", "base", "misc"}
    assert not {n for n in modules() if drawers & set(n.split("."))}


def test_importing_tiebe_is_light() -> None:
    heavy = (
        "datasets openai numpy pandas pyarrow requests httpx2 scipy jinja2 ray trafilatura".split()
    )
    script = f"import sys, tiebe; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_exported_names_survive_the_import_of_every_module() -> None:
    optional = ("tiebe.adapters", "tiebe.ray_engine")
    tops = [n for n in modules() if n.startswith("tiebe.") and not n.startswith(optional)]
    script = (
        "import importlib, warnings; warnings.simplefilter('ignore'); import tiebe\n"
        "before = {n: getattr(tiebe, n) for n in tiebe.__all__}\n"
        f"for name in {sorted(tops)!r}: importlib.import_module(name)\n"
        "assert all(getattr(tiebe, n) is v for n, v in before.items())\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
