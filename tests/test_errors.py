"""Errors as they pass from one process to another."""

import pickle

import pytest

from tiebe.errors import BudgetError, FetchError, ReplyError, SettingsError, TiebeError


@pytest.mark.parametrize(
    "error",
    [
        SettingsError("unknown region 'X'"),
        FetchError("cannot fetch", url="https://a.example/", status=404, reason="not_found"),
        ReplyError("no JSON", model="m", reply="hello"),
        BudgetError("used up", model="m"),
    ],
)
def test_an_error_is_the_same_in_another_process(error: TiebeError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error) and str(other) == str(error)
    assert vars(other) == vars(error)
