"""Prompts: versioned templates with a fixed set of variables per verb.

A prompt is a file `prompts/<name>/<version>.jinja`, its native form `<version>.<code>.jinja`. YAML
front matter says where its words come from, the optional `system` message and the form of the
reply (`output`); the body is the user message. Both are rendered by a sandboxed jinja2; a value is
inserted as it is and never rendered in its turn.
"""

import functools
import glob
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import jinja2.sandbox
import yaml

from tiebe.errors import PromptError, nearest
from tiebe.resources import folder

__all__ = ["VARIABLES", "Prompt", "load_prompt", "versions"]

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "generate": ("n_questions", "event", "date", "title", "content"),
    "translate": ("question", "answer", "language", "country"),
    "ground": ("question", "answer", "title", "content"),
    "answer": ("question", "region"),
    "judge": ("question", "expected", "candidate"),
}
"""The names of the prompts, and the variables that each is given, whatever its version."""

_FRONT_MATTER = re.compile(r"---\n(.*?\n)---\n(.*)", re.DOTALL)
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template at one version; `sha256` is that of its file (with Unix line ends)."""

    name: str
    version: str
    """`paper`, `1`, `event-1` …, with the language of a native form (`paper.pt`); the file's name
    for a template of the caller's own."""
    sha256: str
    text: str
    """The whole file."""
    meta: Mapping[str, Any]
    """The front matter; empty when a template has none."""

    @property
    def id(self) -> str:
        """`name@version`, as records keep it."""
        return f"{self.name}@{self.version}"

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema that replies are to follow, or None for a reply in plain text."""
        schema: Mapping[str, Any] | None = self.meta.get("output", {}).get("schema")
        return schema

    @property
    def labels(self) -> Mapping[str, str]:
        """The words that mark the parts of a plain text reply, such as `{"answer": "Resposta"}`."""
        labels: Mapping[str, str] = self.meta.get("output", {}).get("labels", {})
        return labels

    def render(self, **values: object) -> list[dict[str, str]]:
        """Returns the chat messages: the system message, if there is one, and the user's.

        Args:
            **values: Exactly the variables of `VARIABLES[name]`: strings, numbers, or lists of
                strings. Lone surrogates become U+FFFD, because no server takes them.

        Raises:
            PromptError: A variable is missing, unknown or None, or the template fails.
        """
        wanted = VARIABLES[self.name]
        for problem, names in (
            ("lacks", [name for name in wanted if name not in values]),
            ("has no", [name for name in values if name not in wanted]),
            ("got None for", [name for name, value in values.items() if value is None]),
        ):
            if names:
                raise PromptError(
                    f"prompt {self.id} {problem} {', '.join(names)}; its variables are "
                    + ", ".join(wanted)
                )
        clean = {name: _clean(value) for name, value in values.items()}
        messages = []
        for role, template in _compiled(self.text):
            try:
                content = template.render(clean).strip()
            except Exception as error:  # a template is code: anything may be raised from it
                raise PromptError(f"prompt {self.id} cannot be filled in: {error}") from error
            messages.append({"role": role, "content": content})
        return messages


def versions(name: str) -> list[str]:
    """Returns the versions of a prompt, native forms left out: `paper`, then ours by age.

    Raises:
        PromptError: There is no prompt of that name.
    """
    if name not in VARIABLES:
        raise PromptError(
            f"no prompt {name!r}{nearest(name, VARIABLES)}; there are {', '.join(VARIABLES)}"
        )
    found = [path.stem for path in (folder("prompts") / name).glob("*.jinja")]
    return sorted((v for v in found if "." not in v), key=_age)


def load_prompt(
    name: str,
    version: str | Path | None = None,
    *,
    language: str | None = None,
    fallback: bool = False,
) -> Prompt:
    """Returns a prompt by name and version.

    Args:
        name: One of `VARIABLES`.
        version: `paper` (the paper's words), one of ours (`1`, `event-1`), or the path of an own
            template, which may use the variables of that name and needs no front matter. None:
            the newest of ours, and `paper` for `answer`.
        language: ISO 639 code of the native form; None or `en` for the English one. An own
            template `own.jinja` has its native form beside it, `own.pt.jinja`.
        fallback: Whether the English form stands in for a native one that there is not.

    Raises:
        PromptError: There is no such prompt, version or native form, or it is no valid template.
    """
    known = versions(name)
    if not version:
        numbers = [v for v in known if v.isdecimal()]
        version = "paper" if name == "answer" else max(numbers, key=int)
    if isinstance(version, Path) or version.endswith(".jinja") or re.search(r"[/\\]", version):
        english = Path(version)
    elif version in known:
        english = folder("prompts") / name / f"{version}.jinja"
    else:
        raise PromptError(
            f"prompt {name} has no version {version!r}{nearest(version, known)}; there are "
            f"{', '.join(known)}; an own template is given by its path, such as ./{version}.jinja"
        )
    if not english.is_file():
        raise PromptError(f"no template {english}")
    forms = {"en": english} | {
        path.suffixes[-2][1:]: path
        for path in sorted(english.parent.glob(f"{glob.escape(english.stem)}.*.jinja"))
    }
    if fallback and language not in forms:
        language = "en"
    if (language or "en") not in forms:
        raise PromptError(
            f"prompt {name}@{version} has no form in language {language!r}; "
            f"there are {', '.join(forms)}"
        )
    path = forms[language or "en"]
    return _parse(name, path.stem if version in known else path.name, path)


def _parse(name: str, version: str, path: Path) -> Prompt:
    with path.open("rb") as file:
        raw = file.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise PromptError(f"{path} is larger than {_MAX_BYTES >> 20} MiB: no prompt is that long")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        meta = yaml.safe_load(_split(text)[0]) or {}
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise PromptError(f"{path} is no UTF-8 text with YAML front matter: {error}") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("output", {}), dict):
        raise PromptError(f"{path}: the front matter and its `output` must be mappings")
    if meta.get("name", name) != name:
        raise PromptError(f"{path} is a prompt {meta['name']!r}, where {name!r} was wanted")
    prompt = Prompt(name, version, hashlib.sha256(text.encode()).hexdigest(), text, meta)
    try:
        used = set().union(
            *(
                jinja2.meta.find_undeclared_variables(_environment().parse(source))
                for _, source in _parts(text)
            )
        )
    except jinja2.TemplateError as error:
        raise PromptError(f"{path} is no valid template: {error}") from error
    if unknown := sorted(used - set(VARIABLES[name])):
        raise PromptError(
            f"{path} uses {', '.join(unknown)}{nearest(unknown[0], VARIABLES[name])}; "
            f"a prompt {name} is given {', '.join(VARIABLES[name])}"
        )
    return prompt


def _split(text: str) -> tuple[str, str]:
    """Returns front matter and body."""
    match = _FRONT_MATTER.match(text)
    return (match[1], match[2]) if match else ("", text)


def _parts(text: str) -> list[tuple[str, str]]:
    """Returns the template of each message with its role."""
    front, body = _split(text)
    system = (yaml.safe_load(front) or {}).get("system")
    return ([("system", str(system))] if system else []) + [("user", body)]


@functools.lru_cache(maxsize=128)
def _compiled(text: str) -> list[tuple[str, jinja2.Template]]:
    return [(role, _environment().from_string(source)) for role, source in _parts(text)]


@functools.cache
def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["fence"] = _fence
    return environment


def _fence(text: str, tag: str) -> str:
    """Encloses a stranger's text in a tag that the text cannot close: it bears the text's hash."""
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"<{tag} {mark}>\n{text}\n</{tag} {mark}>"


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


def _age(version: str) -> tuple[bool, str, int]:
    """Sorts `paper` first, then by series and number."""
    series, _, number = version.rpartition("-")
    return (version != "paper", series, int(number) if number.isdecimal() else 0)
