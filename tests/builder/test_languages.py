"""Telling languages, and letters made comparable."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.languages import fold, language_of, likelihood
from tiebe.regions import LANGUAGES

TEXTS = {
    code: " ".join(parts)
    for code, parts in yaml.safe_load(
        Path(__file__).with_name("languages.yaml").read_text("utf-8")
    ).items()
}


def test_fold() -> None:
    assert fold("  Ağrı\nДнепр 大桥 “é” ") == 'agri dnepr daqiao "e"'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The bridge over the river was opened on Saturday.", "en"),
        ("A ponte sobre o rio foi aberta no sábado.", "pt"),
        ("El puente sobre el río se inauguró el sábado.", "es"),
        ("Le pont sur la rivière a été ouvert samedi.", "fr"),
        ("Die Brücke über den Fluss wurde am Samstag eröffnet.", "de"),
        ("Мост через реку открыли в субботу.", "ru"),
        ("Міст через річку відкрили в суботу.", "uk"),
        ("Nehrin üzerindeki köprü cumartesi günü açıldı.", "tr"),
        ("大桥于星期六正式通车。", "zh"),
        ("橋は土曜日に開通しました。", "ja"),
        ("በወንዙ ላይ የተሠራው ድልድይ ቅዳሜ ተከፈተ።", "am"),
        ("Jembatan di atas sungai itu dibuka pada hari Sabtu.", "id"),
        ("नदी पर बना पुल शनिवार को खोला गया।", "hi"),
        ("Ol i opim nupela bris long wara long Sarere.", "tpi"),
        ("Husat i bin wokim dispela bris long Lae long 2019?", "tpi"),
        ("Gavman i tok dispela rot bilong Madang bai pinis.", "tpi"),
        ("I long for the man who came by the long road.", "en"),
        ("2019, 12.5", None),
        ("", None),
    ],
)
def test_languages(text: str, code: str | None) -> None:
    assert language_of(text) == code


@pytest.mark.parametrize("code", LANGUAGES)
def test_each_language_is_known_and_taken_for_no_other(code: str) -> None:
    assert likelihood(TEXTS[code], code) > 0.5
    others = {other: likelihood(TEXTS[code], other) for other in LANGUAGES if other != code}
    assert max(others.values()) < 0.2, others


def test_a_japanese_text_is_not_chinese() -> None:
    assert likelihood("二〇二一年五月に開通した歩道橋を設計したのは誰ですか。", "zh") < 0.2


@given(st.text(), st.sampled_from(sorted(LANGUAGES)))
@settings(deadline=None, max_examples=50)
def test_any_text_has_a_likelihood(text: str, code: str) -> None:
    assert 0.0 <= likelihood(text, code) <= 1.0
