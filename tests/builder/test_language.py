"""Languages are told apart, Tok Pisin among them."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.language import likelihood, tok_pisin
from tiebe.regions import LANGUAGES

TEXTS = {
    code: " ".join(parts)
    for code, parts in yaml.safe_load(
        Path(__file__).with_name("language.yaml").read_text("utf-8")
    ).items()
}


@pytest.mark.parametrize("code", LANGUAGES)
def test_each_language_is_known_and_taken_for_no_other(code: str) -> None:
    assert likelihood(TEXTS[code], code) > 0.5
    others = {other: likelihood(TEXTS[code], other) for other in LANGUAGES if other != code}
    assert max(others.values()) < 0.2, others


def test_tok_pisin_is_known_by_its_grammar() -> None:
    assert tok_pisin(TEXTS["tpi"]) > 0.8
    assert all(tok_pisin(text) < 0.3 for code, text in TEXTS.items() if code != "tpi")
    assert tok_pisin("Ilse Tarrant") == 0.0


def test_a_japanese_text_is_not_chinese() -> None:
    assert likelihood("二〇二一年五月に開通した歩道橋を設計したのは誰ですか。", "zh") < 0.2


@given(st.text(), st.sampled_from(sorted(LANGUAGES)))
@settings(deadline=None, max_examples=50)
def test_any_text_has_a_likelihood(text: str, code: str) -> None:
    assert 0.0 <= likelihood(text, code) <= 1.0
