"""Providers of OpenAI-compatible servers and the models of the paper, as data (`models.toml`)."""

import calendar
import datetime as dt
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

import msgspec

__all__ = ["MODELS", "PROVIDERS", "KnownModel", "Provider", "find_model"]


@dataclass(frozen=True, slots=True)
class Provider:
    """A server that speaks the OpenAI protocol."""

    base_url: str
    key: str
    """The environment variable that holds the key; empty where none is needed."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of the paper: where it is served, as what, and how far its knowledge goes."""

    id: str
    name: str
    provider: str
    """A key of `PROVIDERS`."""
    version: str
    """The name to ask the provider for."""
    executed: str
    """The day on which the paper asked it, `YYYY-MM-DD`."""
    cutoff: str | None = None
    """As published: `YYYY-MM`, or `YYYY` where only the year is known; None where nothing is."""
    aliases: tuple[str, ...] = ()

    @property
    def cutoff_date(self) -> dt.date | None:
        """The last day of the published month or year; see `cutoff_is_year`."""
        if self.cutoff is None:
            return None
        year, _, month = self.cutoff.partition("-")
        number = int(month or 12)
        return dt.date(int(year), number, calendar.monthrange(int(year), number)[1])

    @property
    def cutoff_is_year(self) -> bool:
        """Whether only the year was published, so that 31 December is an assumption."""
        return self.cutoff is not None and "-" not in self.cutoff


@dataclass(frozen=True, slots=True)
class _File:
    providers: dict[str, Provider]
    models: tuple[KnownModel, ...]


_FILE = msgspec.convert(
    tomllib.loads(resources.files("tiebe").joinpath("models.toml").read_text("utf-8")), _File
)

PROVIDERS: Mapping[str, Provider] = MappingProxyType(_FILE.providers)
"""By the name that goes before the colon in `provider:name`."""

MODELS: Mapping[str, KnownModel] = MappingProxyType({m.id: m for m in _FILE.models})

_NAMES: dict[str, KnownModel] = {
    name.casefold(): model
    for model in MODELS.values()
    for name in (model.id, model.name, model.version, *model.aliases)
}


def find_model(name: str) -> KnownModel | None:
    """Returns the known model of an id, name, version or alias, with or without `provider:`.

    None says that nothing is known of it, not that it cannot be asked: any model can be.
    """
    known = _NAMES.get(name.casefold())
    if known is None and name.partition(":")[0] in PROVIDERS:
        known = _NAMES.get(name.partition(":")[2].casefold())
    return known
