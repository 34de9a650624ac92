"""Telling languages, and letters made comparable."""

import pytest

from builder.languages import fold, language_of


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
