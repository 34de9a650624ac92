"""What a function does, as far as Python can tell: so that its answers are not taken for another's.

Code, constants, defaults, what it closes over and the globals that it names count where they are
plain values or functions themselves. Of anything else (a client, a checkpoint on a GPU) nothing can
be told but which object it is, and that only as long as this process lives.
"""

import functools
import hashlib
import types
import uuid
import weakref
from typing import Any

from tiebe.records import canonical

__all__ = ["fingerprint"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_tokens: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def fingerprint(function: Any) -> str:
    """Returns 16 hex digits that stay the same exactly as long as a callable can be told to.

    Two functions with the same code and the same plain values have the same; an edited one, or one
    that closes over another value, has another. What holds an object that cannot be looked into has
    one of its own in every process.
    """
    return hashlib.sha256(canonical(_parts(function, set()))).hexdigest()[:16]


def _parts(value: Any, seen: set[int]) -> Any:
    """Returns what tells a value from others, as JSON."""
    if isinstance(value, _PLAIN):
        return [type(value).__name__, repr(value)]
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, type | types.BuiltinFunctionType):
        return ["name", f"{value.__module__}.{value.__qualname__}"]
    if id(value) in seen:
        return ["again"]
    seen = seen | {id(value)}

    def each(values: Any) -> list[Any]:
        return [_parts(one, seen) for one in values]

    if isinstance(value, tuple | list):
        return [type(value).__name__, *each(value)]
    if isinstance(value, dict):
        return ["dict", *([_parts(k, seen), _parts(v, seen)] for k, v in value.items())]
    if isinstance(value, set | frozenset):
        return ["set", *sorted(each(value), key=repr)]
    if isinstance(value, types.CodeType):
        return ["code", value.co_code.hex(), list(value.co_names), each(value.co_consts)]
    if isinstance(value, types.MethodType):
        return ["method", *each((value.__func__, value.__self__))]
    if isinstance(value, functools.partial):
        return ["partial", *each((value.func, value.args, value.keywords))]
    if isinstance(value, types.FunctionType):
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        names = value.__code__.co_names
        known = {name: value.__globals__[name] for name in names if name in value.__globals__}
        parts = (value.__code__, value.__defaults__, value.__kwdefaults__, cells, known)
        return ["function", *each(parts)]
    return ["object", _token(value)]


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet set
        return None


def _token(value: Any) -> str:
    """Returns what no other object has, in this process or another."""
    try:
        return _tokens.setdefault(value, uuid.uuid4().hex)
    except TypeError:  # neither hashable nor weakly referable: not even this much can be told
        return uuid.uuid4().hex
