"""Loads the benchmark."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

__all__ = ["stratified"]


def stratified(members: Iterable[tuple[Any, str]], n: int) -> set[str]:
    """Returns `n` of the ids, each stratum in proportion to its size (largest remainders).

    Within a stratum the smallest ids win. Ids are digits of a hash, so that is a draw whose seed
    is the data: it is the same for everyone, and hardly moves when rows come or go.

    Args:
        members: Pairs of a stratum (sortable) and an id.
        n: How many; all when there are not more.
    """
    strata = defaultdict(set)
    for stratum, member in members:
        strata[stratum].add(member)
    total = sum(map(len, strata.values()))
    n = min(n, total)
    shares = {stratum: divmod(n * len(ids), total) for stratum, ids in strata.items()}
    missing = n - sum(whole for whole, _ in shares.values())
    by_remainder = sorted(shares, key=lambda stratum: (-shares[stratum][1], stratum))
    extra = set(by_remainder[:missing])
    return {
        member
        for stratum, ids in strata.items()
        for member in sorted(ids)[: shares[stratum][0] + (stratum in extra)]
    }
