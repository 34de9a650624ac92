"""The lexical rules: refusals in every language, and the plain rule of right and wrong."""

import pytest

from tiebe.lexical import hand_rule, is_refusal

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "As of my last update in October 2023, I do not have that information.",
    "Desculpe, mas não tenho informações sobre esse evento.",
    "Lo siento, pero no tengo información sobre ese acontecimiento.",
    "Je suis désolé, mais je ne dispose pas d’informations à ce sujet.",
    "Leider habe ich keine Informationen über dieses Ereignis.",
    "К сожалению, у меня нет информации об этом событии.",
    "Üzgünüm, bu konuda bilgim yok.",
    "抱歉，我无法提供相关信息。",
    "ይቅርታ፣ ስለዚህ ጉዳይ መረጃ የለኝም።",
    "Sori, mi no save long dispela.",
    "На жаль, у мене немає інформації про цю подію.",
    "Maaf, saya tidak memiliki informasi tentang itu.",
    "क्षमा करें, मुझे इस घटना की जानकारी नहीं है।",
]
ANSWERS = [
    "Answer: Marie Curie",
    "No survivors were found.",
    "Ninguém ficou ferido.",
    "Il n'a pas été réélu.",
    "Niemand wurde verletzt.",
    "Погибло 12 человек.",
    "Kimse ölmedi.",
    "三人遇难。",
    "Sembilan orang tewas.",
    "",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_seen_in_every_language(text: str) -> None:
    assert is_refusal(text)
    assert is_refusal("Answer: " + text.upper())


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


def test_the_plain_rule() -> None:
    question = "How many people died when the ferry Aurora sank in May 2021?"
    expected = "Fourteen people died, among them 1,200 tonnes of freight were lost."
    assert hand_rule(question, expected, "14 died, and 1200 tonnes went down.") == (True, False)
    assert hand_rule(question, expected, "15 people died, 1,200 tonnes lost.") == (False, False)
    assert hand_rule(question, expected, question) == (False, False)
    assert hand_rule(question, expected, "I do not know.") == (False, True)
    assert hand_rule("谁当选？", "王小明当选", "王小明") == (True, False)
    assert hand_rule("", "", "") == (False, False)
