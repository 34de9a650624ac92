"""The cascade: the offline judge settles what it is sure of, a language model judges the rest.

A fixed part of what is settled goes to the model all the same, so that every run measures how often
both agree. Where the offline judge was never measured, on answers to other questions than TiEBe's,
a `Calibration` measures it first. Pure functions and records; `tiebe.judges.Judge` asks.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Agreement", "Calibration", "cascade_name", "drawn", "expected_share", "wanted"]

SAMPLE = 0.03
"""The part of what is settled that the model judges as well."""
LEAST = 30
"""Settled answers without which a calibration tells nothing."""
SHARES = {0.9: 0.85, 0.95: 0.792, 0.97: 0.729, 0.98: 0.675, 0.99: 0.569, 0.995: 0.47}
"""By the agreement wanted: the part of unseen models' answers that is settled, for estimates."""


def drawn(case_id: str) -> bool:
    """Returns whether a settled case, by its hash, is one that the model judges as well."""
    return int(case_id[:8], 16) < SAMPLE * (1 << 32)


def expected_share(target: float) -> float:
    """Returns what part of TiEBe's answers the model need not judge at an agreement wanted."""
    settled = next((share for known, share in SHARES.items() if known >= target), 0.0)
    return settled * (1 - SAMPLE)


def cascade_name(model: str, target: float, offline: str) -> str:
    """Returns how a cascade is named in its verdicts: by both judges."""
    return f"{model}, cascade {target:g} with {offline}"


_NAME = re.compile(r", cascade (\d\.\d+) with ")


def wanted(judge: str) -> float | None:
    """Returns the agreement that the cascade of this name was to reach; None for another judge."""
    found = _NAME.search(judge)
    return float(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many of the settled answers that both judged were judged the same."""

    same: int
    n: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool | None, bool | None]]) -> "Agreement":
        """Counts pairs of verdicts."""
        same = [ours == theirs for ours, theirs in pairs]
        return cls(sum(same), len(same))

    def interval(self) -> tuple[float, float]:
        """Returns the exact (Clopper and Pearson's) 95 % interval; everything where n is 0."""
        if not self.n:
            return 0.0, 1.0
        from scipy.stats import binomtest  # slow to import

        low, high = binomtest(self.same, self.n).proportion_ci(method="exact")
        return float(low), float(high)

    def misses(self, target: float) -> bool:
        """Returns whether it surely lies below what is wanted."""
        return self.interval()[1] < target

    def of_sample(self, settled: int) -> str:
        """Returns what to say of the sample behind how many are settled; nothing if none are."""
        if not settled:
            return ""
        if not self.n:
            return "; none of them was drawn for the model to judge too"
        return f"; of a sample that the model judged too, {self}"

    def __str__(self) -> str:
        if not self.n:
            return "none that both judged"
        low, high = self.interval()
        share = f"{self.same / self.n:.1%}"
        return f"{self.same:,} of {self.n:,} the same ({share}, 95% interval {low:.1%}–{high:.1%})"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The offline judge beside a model, on answers to one's own questions."""

    judge: str
    """The cascade's name."""
    target: float
    n: int
    """Answers that the model gave a verdict on."""
    settled: int
    """How many of them the offline judge would settle."""
    same: int
    """How many of those the model judged the same."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The model's, on all of them."""
    cost: float | None = None
    """Dollars of `usage`, where the model's price is known."""

    @property
    def agreement(self) -> Agreement:
        """Of what would be settled."""
        return Agreement(self.same, self.settled)

    @property
    def holds(self) -> bool:
        """Whether the cascade may settle: enough was seen, and it does not surely fall short."""
        return self.settled >= LEAST and not self.agreement.misses(self.target)

    @property
    def kept(self) -> float:
        """The part of the answers that the model still judges."""
        return 1 - (1 - SAMPLE) * self.settled / self.n

    def per_thousand(self) -> str:
        """Returns what 1,000 answers take with and without the cascade."""
        tokens = self.usage.get("prompt_tokens", 0) + self.usage.get("completion_tokens", 0)
        if self.cost is None:
            each, unit = 1000 * tokens / self.n, "{:,.0f} tokens"
        else:
            each, unit = 1000 * self.cost / self.n, "${:,.2f}"
        return f"{unit.format(each * self.kept)} instead of {unit.format(each)}"

    def __str__(self) -> str:
        if self.settled < LEAST:
            verdict = f"too few are settled to tell (at least {LEAST}), so the model judges all"
        elif not self.holds:
            verdict = f"below the {self.target:.1%} wanted, so the model judges all"
        else:
            verdict = f"1,000 answers take {self.per_thousand()}"
        same = f", {self.agreement}" if self.settled else ""
        return (
            f"{self.judge}: {self.settled:,} of {self.n:,} answers settled "
            f"({self.settled / self.n:.0%}){same}; {verdict}"
        )
