"""Hosts' turns."""

import time

import pytest

from tiebe.engine import Wait
from tiebe.lanes import Lanes


def test_an_owner_has_one_turn_at_a_time_and_a_pause_between_two() -> None:
    lanes = Lanes(5.0)
    with lanes.turn("a", 0.2):
        assert 0 < lanes.take("a", 0.2) <= 0.2
        with pytest.raises(Wait) as raised, lanes.turn("a", 0.2):
            pass
        assert raised.value.owner == "a" and raised.value.seconds > 0
        assert lanes.take("b", 0.0) == 0.0
    assert 0 < lanes.left("a") <= 0.2
    time.sleep(lanes.left("a") + 0.01)
    lanes.check("a")


def test_a_turn_may_end_with_a_longer_rest() -> None:
    lanes = Lanes(5.0)
    with lanes.turn("a", 0.0) as turn:
        turn.rest = 30.0
    assert 29 < lanes.left("a") <= 30


def test_a_dead_holders_request_is_waited_out() -> None:
    lanes = Lanes(8.0)
    assert lanes.take("a", 0.0, "dead") == 0.0
    assert lanes.take("b", 0.0, "alive") == 0.0
    lanes.lose("dead")
    assert 7 < lanes.left("a") <= 8 and lanes.left("b") == 0.05
    lanes.leave("b")
    assert lanes.left("b") == 0.0


def test_closed_lanes_give_no_turn_yet() -> None:
    assert 2 < Lanes(5.0, closed=3.0).take("a", 0.0) <= 3
