"""The error tree: everything that this library raises on purpose.

```
TiebeError
├ SettingsError(ValueError)   unknown region, model, key …: the value, what was expected, names
├ PromptError(ValueError)     a prompt that cannot be found, parsed or filled in
├ RecordError(ValueError)     file:line: field
│ └ UnjudgedError             a run folder without a verdict yet
├ VersionError(LookupError)   a release that is not the one asked for
├ FetchError(OSError)         .url .status .reason
├ ModelError                  .model .fatal: the provider failed after retries; fatal stops the run
│ ├ ReplyError(ValueError)    .reply: not in the asked form
│ └ BudgetError               the next call could pass the budget: the run stops
└ PublishError(OSError)       a release that could not be put on the Hub
```

A message says what was found, what was expected and what to do next. A bad record is no error but a
`tiebe.records.Drop`; a judge's reply without a verdict is unscored.
"""

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BudgetError",
    "FetchError",
    "ModelError",
    "PromptError",
    "PublishError",
    "RecordError",
    "ReplyError",
    "SettingsError",
    "TiebeError",
    "UnjudgedError",
    "VersionError",
    "nearest",
]


class TiebeError(Exception):
    """Base of all errors raised on purpose; the command lines show it as one line and exit 1."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Lets errors with arguments of their own pass from one process to another."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[TiebeError], args: tuple[Any, ...], told: dict[str, Any]) -> TiebeError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(told)
    return error


class SettingsError(TiebeError, ValueError):
    """A value that the user gave is not one of those that exist."""


class PromptError(TiebeError, ValueError):
    """A prompt cannot be found, parsed or filled in."""


class RecordError(TiebeError, ValueError):
    """A line of a file is not the record it should be."""


class UnjudgedError(RecordError):
    """A run folder holds no verdict yet; others can be scored without it."""


class VersionError(TiebeError, LookupError):
    """The release at hand is not the one asked for."""


class FetchError(TiebeError, OSError):
    """A document could not be fetched; `reason` is a code such as `not_found`."""

    def __init__(
        self, message: str, *, url: str, status: int | None = None, reason: str = "fetch_failed"
    ) -> None:
        super().__init__(message)
        self.url = url
        self.status = status
        self.reason = reason


class ModelError(TiebeError):
    """A model's provider failed after all retries.

    Attributes:
        model: The model that was asked.
        fatal: Whether asking on is useless (no quota, no right, no budget): a run stops at once.
    """

    def __init__(self, message: str, *, model: str, fatal: bool = False) -> None:
        super().__init__(message)
        self.model = model
        self.fatal = fatal


class ReplyError(ModelError, ValueError):
    """A model's reply is not in the form that was asked for."""

    def __init__(self, message: str, *, model: str, reply: str) -> None:
        super().__init__(message, model=model)
        self.reply = reply


class BudgetError(ModelError):
    """The next call to a model could pass the budget; it is not made, and the run stops."""

    def __init__(self, message: str, *, model: str) -> None:
        super().__init__(message, model=model, fatal=True)


class PublishError(TiebeError, OSError):
    """A release could not be put on the Hub."""


def nearest(value: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x' or 'y'?` for the names closest to `value`, or an empty string."""
    lower = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(value.casefold(), lower, n=3, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(f"'{lower[c]}'" for c in close) + "?"
