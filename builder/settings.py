"""`run.toml`: the whole input of a run, checked when it is read."""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from builder.collect import PagesSettings
from builder.rules import SHARES
from builder.web import WebSettings
from tiebe.errors import ModelError, SettingsError, nearest
from tiebe.journal import Journal
from tiebe.llm import Budget, Model, Reply, open_model
from tiebe.regions import find_regions

__all__ = ["Settings", "read_settings", "read_shares"]


@dataclass(frozen=True, slots=True)
class ReleaseSettings:
    """`[release]`: what is to come out."""

    version: str
    """The cut-off month, `2025.04`, or a repair of it, `2025.04.1`."""
    base: str = ""
    """The release that this one goes on from: a folder, or a Hub tag; empty for none."""
    texts: Literal["full", "none"] = "full"
    """`none` leaves the config `articles` out."""

    @property
    def cutoff(self) -> str:
        """The last month whose events belong to the release, `YYYY-MM`."""
        return self.version[:7].replace(".", "-")


@dataclass(frozen=True, slots=True)
class GenerateSettings:
    """`[generate]`: who writes the questions."""

    model: str = ""
    prompt: str = ""
    questions_per_event: int = 1
    candidates: int = 3
    article_tokens: int = 6000
    """How much of an article the writer is shown; it is cut at a sentence."""
    ground: str = ""
    """A model that checks whether the article supports each answer; empty: none does."""


@dataclass(frozen=True, slots=True)
class TranslateSettings:
    """`[translate]`: who translates; empty: the writer."""

    model: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """`[check]`: which share of rows may bear a flag."""

    max_share: Mapping[str, float] = field(default_factory=dict)
    """By name of a flag, or `wrong_article`: 0 to 1."""


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """`[budget]`: 0 is no limit."""

    max_tokens: int = 0
    max_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """Dollars per million tokens."""

    input: float
    output: float
    on: Any = None
    """The day on which this was the price."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """`[models."name"]`: what is particular to a model."""

    base_url: str = ""
    key: str = ""
    """The environment variable that holds its key; never the key itself."""
    price: PriceSettings | None = None
    max_tokens: int = 2048
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    batch: bool = False
    """Whether it is asked in files: within a day, mostly at half the price."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A run's whole input."""

    release: ReleaseSettings
    pages: PagesSettings = field(default_factory=PagesSettings)
    web: WebSettings = field(default_factory=WebSettings)
    generate: GenerateSettings = field(default_factory=GenerateSettings)
    translate: TranslateSettings = field(default_factory=TranslateSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    models: Mapping[str, ModelSettings] = field(default_factory=dict)

    def regions(self) -> list[str]:
        """Returns the slugs of the wanted regions."""
        wanted = self.pages.regions
        names = None if wanted == "all" else [wanted] if isinstance(wanted, str) else list(wanted)
        return [region.slug for region in find_regions(names)]

    def make_budget(self) -> Budget:
        """Returns the budget with nothing spent."""
        prices = {
            name: (model.price.input, model.price.output)
            for name, model in self.models.items()
            if model.price
        }
        return Budget(self.budget.max_tokens, self.budget.max_cost, prices)

    def open_model(self, name: str, *, replies: Journal | None, budget: Budget) -> Model:
        """Opens a model as its table says."""
        own = self.models.get(name, ModelSettings())
        return open_model(
            name,
            base_url=own.base_url or None,
            key=own.key or None,
            max_tokens=own.max_tokens,
            extra_body=own.extra_body,
            replies=replies,
            budget=budget,
        )

    def planned_model(self, name: str, budget: Budget) -> Model:
        """Returns a model for estimates: it needs no key, and cannot be asked."""
        own = self.models.get(name, ModelSettings())

        def send(body: Mapping[str, Any]) -> Reply:
            raise ModelError("a plan asks no model", model=name)

        return Model(
            name, send, max_tokens=own.max_tokens, extra_body=own.extra_body, budget=budget
        )


def read_settings(path: Path) -> Settings:
    """Reads `run.toml`.

    Raises:
        SettingsError: No such file, no TOML, an unknown key, a value of another kind; the message
            names the key and what was expected.
    """
    try:
        raw = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}; a run is a folder with a run.toml in it"
        ) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    _refuse_unknown(raw, Settings, "", path)
    try:
        settings = msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {_in_toml(str(error))}") from error
    _check(settings, path)
    return settings


_KINDS = {
    "str": 'a text in quotes ("…")',
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list […]",
    "object": "a table",
}


def _in_toml(message: str) -> str:
    """Returns what is wrong with a value, in the words of who writes TOML."""
    told, _, place = message.partition(" - at `$.")
    key = place.rstrip("`")
    if found := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", told):
        expected, got = (
            " or ".join(_KINDS.get(kind, kind) for kind in kinds.split(" | "))
            for kinds in found.groups()
        )
        return f"{key} must be {expected}, and is {got}"
    if missing := re.fullmatch(r"Object missing required field `(.+)`", told):
        return f"{f'{key}.{missing[1]}'.lstrip('.')} is missing, and is needed"
    return told if told.lstrip("[").startswith(key) else f"{key}: {told}"


def _refuse_unknown(table: Mapping[str, Any], kind: type, where: str, path: Path) -> None:
    """Refuses a key that no setting has; a typing error must not silently do nothing."""
    known = {f.name: f.type for f in dataclasses.fields(kind)}
    for key, value in table.items():
        if key not in known:
            hint = nearest(key, known) or f"; there are {', '.join(known)}"
            raise SettingsError(f"{path}: unknown key '{where}{key}'{hint}")
        if key == "models" and isinstance(value, dict):
            for name, own in value.items():
                if isinstance(own, dict):
                    _refuse_unknown(own, ModelSettings, f'models."{name}".', path)
        elif dataclasses.is_dataclass(known[key]) and isinstance(value, dict):
            _refuse_unknown(value, known[key], f"{where}{key}.", path)  # type: ignore[arg-type]


def _check(settings: Settings, path: Path) -> None:
    """Checks what types cannot say."""

    def refuse(key: str, value: object, expected: str) -> None:
        raise SettingsError(f"{path}: {key} is {value!r}, and must be {expected}")

    version = settings.release.version
    if not re.fullmatch(r"20\d\d\.(0[1-9]|1[0-2])(\.[1-9]\d*)?", version):
        refuse("release.version", version, "a month such as '2025.04', or '2025.04.1' for a repair")
    if settings.generate.candidates < settings.generate.questions_per_event:
        refuse("generate.candidates", settings.generate.candidates, "at least questions_per_event")
    _check_shares(settings.check.max_share, f"{path}: check.max_share")
    if settings.generate.article_tokens < 100:
        refuse("generate.article_tokens", settings.generate.article_tokens, "at least 100")
    try:
        settings.regions()
    except SettingsError as error:
        raise SettingsError(f"{path}: pages.regions: {error}") from error


def read_shares(pairs: Iterable[str]) -> dict[str, float]:
    """Returns the shares that options give as `FLAG=SHARE`.

    Raises:
        SettingsError: A flag that there is not, or no share from 0 to 1.
    """
    shares = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            shares[name] = float(value)
        except ValueError as error:
            raise SettingsError(f"max share '{pair}' is not FLAG=SHARE, as yes_no=0.01") from error
    _check_shares(shares, "max share")
    return shares


def _check_shares(shares: Mapping[str, float], where: str) -> None:
    for name, share in shares.items():
        if name not in SHARES:
            hint = nearest(name, SHARES) or f"; there are {', '.join(SHARES)}"
            raise SettingsError(f"{where}: there is no flag '{name}'{hint}")
        if not 0 <= share <= 1:
            raise SettingsError(f"{where}: {name} is {share}, and must be from 0 to 1")
