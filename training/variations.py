"""Answers made from rows by rule, whose verdict is known by construction; they teach the judge.

Two things are missing from answers that models gave: long thinking aloud, which only one family of
models does, and cheap tricks (a denial of the expected answer, an alternative beside it, changed
digits, exchanged names, piled-up keywords, the question said again), which no honest model plays.
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiebe.lexical import lexicon


class Row(NamedTuple):
    """One judged answer."""

    question: str
    expected: str
    candidate: str
    language: str
    correct: bool
    refusal: bool
    kind: str = "judged"
    """`judged`, or how it was made."""


_OPENINGS = (
    "To answer this question, we need to consider the context of {q}.",
    "To give an accurate answer, let us look at what is known about {q}.",
    "Let us break the question down: {q}.",
    "## Step 1: Understand the question\nThe question is about {q}.",
    "To determine this, we should first look at {q}.",
    "First, the background. The question refers to {q}.",
)
_THOUGHTS = (
    "1. **Understanding the context**: The question pertains to a specific event, and the details "
    "matter here.",
    "2. **Identifying the key point**: We need to find the exact fact that is asked for.",
    "Given the information available up to my last update, several sources reported on this topic.",
    "This topic has drawn considerable attention in the media and among officials.",
    "3. **Considering the time frame**: The event took place at the time named in the question.",
    "It is a significant matter in the region and has had political and social consequences.",
    "Based on the available information, the following can be said.",
    "Several factors have to be considered, including the political situation at the time.",
    "Without access to every report, I rely on general knowledge and on the context given.",
    "The country has seen a number of developments in this area in recent years.",
)
_CLOSINGS = (
    "Therefore, based on the information available,",
    "Thus, the most likely answer is as follows.",
    "Given this,",
    "Considering these points,",
    "",
)
_DENIALS = {
    "en": ("It is not true that {e}", "It is false that {e}", "No, the opposite of this: {e}"),
    "es": ("No es cierto que {e}", "Es falso que {e}"),
    "pt": ("Não é verdade que {e}", "É falso que {e}"),
    "fr": ("Il n'est pas vrai que {e}", "Il est faux que {e}"),
    "de": ("Es stimmt nicht, dass {e}", "Es ist falsch, dass {e}"),
    "ru": ("Неверно, что {e}", "Это неправда: {e}"),
    "tr": ("{e} Bu doğru değil.", "Şu ifade yanlış: {e}"),
    "zh": ("并非如此：{e}", "{e}这是错误的。"),
    "am": ("{e} ይህ እውነት አይደለም።", "ይህ ስህተት ነው፦ {e}"),
    "tpi": ("Em i no tru olsem {e}", "I no tru: {e}"),
}
_ALTERNATIVES = {
    "en": (
        "{e} Or else: {o}",
        "Either {e} or {o}",
        "{e} However, others say: {o}",
        "{o} or {e}",
        "{e} / {o}",
        "Both {e} and {o}",
        "{e}; {o}",
    ),
    "es": (
        "{e} O bien: {o}",
        "{e} Sin embargo, otros dicen: {o}",
        "{e} / {o}",
        "{e} y también {o}",
    ),
    "pt": (
        "{e} Ou então: {o}",
        "{e} No entanto, outros dizem: {o}",
        "{e} / {o}",
        "{e} e também {o}",
    ),
    "fr": (
        "{e} Ou bien : {o}",
        "{e} Cependant, d'autres disent : {o}",
        "{e} / {o}",
        "{e} et aussi {o}",
    ),
    "de": ("{e} Oder aber: {o}", "{e} Andere sagen jedoch: {o}", "{e} / {o}", "{e} und auch {o}"),
    "ru": ("{e} Или же: {o}", "{e} Однако другие говорят: {o}", "{e} / {o}", "{e} и также {o}"),
    "tr": (
        "{e} Ya da: {o}",
        "{e} Ancak başkaları şunu söylüyor: {o}",
        "{e} / {o}",
        "{e} ve ayrıca {o}",
    ),
    "zh": ("{e}或者：{o}", "{e}但是也有人说：{o}", "{e} / {o}", "{e}，{o}"),
    "am": ("{e} ወይም {o}", "{e} ነገር ግን ሌሎች {o} ይላሉ", "{e} / {o}", "{e} እና {o}"),
    "tpi": ("{e} O nogat, {o}", "{e} Tasol sampela i tok: {o}", "{e} / {o}", "{e} na tu {o}"),
}
_DECLINED = {
    "en": (
        "I do not know.",
        "I have no information on that.",
        "That has not taken place yet.",
        "This event lies ahead, so nothing can be said about it.",
    ),
    "es": ("No lo sé.", "No tengo datos sobre eso.", "Eso todavía no ha ocurrido."),
    "pt": ("Não sei.", "Não tenho dados sobre isso.", "Isso ainda não aconteceu."),
    "fr": ("Je ne sais pas.", "Je n'ai aucune donnée à ce sujet.", "Cela n'a pas encore eu lieu."),
    "de": (
        "Das weiß ich nicht.",
        "Dazu liegen mir keine Daten vor.",
        "Das ist noch nicht geschehen.",
    ),
    "ru": ("Я не знаю.", "У меня нет данных об этом.", "Этого ещё не произошло."),
    "tr": ("Bilmiyorum.", "Bu konuda verim yok.", "Bu henüz gerçekleşmedi."),
    "zh": ("我不知道。", "我没有这方面的资料。", "这件事尚未发生。"),
    "am": ("አላውቅም።", "ስለዚህ መረጃ የለኝም።", "ይህ ገና አልተከሰተም።"),
    "tpi": ("Mi no save.", "Mi no gat infomesen long dispela.", "Dispela i no kamap yet."),
}
_FRAMES = {
    "en": ("The answer is: {e}", "Answer: {e}", "{e} This was widely reported.", "{e}"),
}
_SETTINGS = {
    "en": (
        "According to press reports, {e}",
        "Based on the available information, the answer is that {e}",
        "As far as I know, {e}",
        "The correct answer is: {e}",
        "It was reported that {e}",
        "{e} That is what was reported at the time.",
    ),
    "es": ("Según la prensa, {e}", "Según la información disponible, {e}", "La respuesta es: {e}"),
    "pt": (
        "De acordo com a imprensa, {e}",
        "Com base nas informações disponíveis, {e}",
        "A resposta é: {e}",
    ),
    "fr": (
        "Selon la presse, {e}",
        "D'après les informations disponibles, {e}",
        "La réponse est : {e}",
    ),
    "de": (
        "Laut Presseberichten gilt: {e}",
        "Nach den vorliegenden Informationen: {e}",
        "Die Antwort lautet: {e}",
    ),
    "ru": ("По сообщениям прессы, {e}", "Согласно имеющейся информации, {e}", "Это так: {e}"),
    "tr": ("Basında çıkan haberlere göre {e}", "Mevcut bilgilere göre {e}", "Yanıt şudur: {e}"),
    "zh": ("据媒体报道，{e}", "根据现有信息，{e}", "答案是：{e}"),
    "am": ("እንደ ዜና ዘገባዎች {e}", "ባለው መረጃ መሠረት {e}", "መልሱ ይህ ነው፦ {e}"),
    "tpi": ("Long ripot bilong nius, {e}", "Long save bilong mi, {e}", "Bekim em i olsem: {e}"),
}
_NAME = re.compile(r"(?<=\w )[A-ZÀ-ÞА-ЯЁ][\w’'-]{3,}")


def thinking_aloud(row: Row, chance: random.Random) -> Row:
    """Returns the row's answer inside a chain of thought, as long as such answers are."""
    body = re.sub(r"^\W*Answer:\s*", "", row.candidate.strip())
    lines = [chance.choice(_OPENINGS).format(q=row.question.rstrip("?？ "))]
    lines += chance.sample(_THOUGHTS, chance.randint(2, 5))
    form = chance.random()
    if form < 0.4:
        end = f"\n\n{chance.choice(_CLOSINGS)}\n\nAnswer: {body}"
    elif form < 0.75:
        end = f"\n\n{chance.choice(_CLOSINGS)} {body}"
    else:
        lines.insert(chance.randint(1, len(lines)), body)
        end = f" {chance.choice(_THOUGHTS)}"
    return row._replace(candidate=("\n\n".join(lines) + end)[:1300], kind="thoughts")


def _decapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def _digits_changed(text: str, chance: random.Random) -> str:
    def other(match: re.Match[str]) -> str:
        digit = chance.choice([d for d in "123456789" if d != match[0]])
        return digit

    places = list(re.finditer(r"\d", text))
    for place in chance.sample(places, min(len(places), chance.randint(1, 2))):
        text = text[: place.start()] + other(place) + text[place.end() :]
    return text


def _name_exchanged(text: str, names: Sequence[str], chance: random.Random) -> str:
    own = _NAME.findall(text)
    if not own or not names:
        return text
    return text.replace(chance.choice(own), chance.choice(names), 1)


def _turned_round(text: str, language: str) -> str:
    for one, other in lexicon(language).opposites:
        for old, new in ((one, other), (other, one)):
            whole = re.compile(rf"\b{re.escape(old)}\b", re.IGNORECASE)
            if whole.search(text):
                return whole.sub(new, text, count=1)
    return text


def _piled_up(question: str, expected: str, chance: random.Random) -> str:
    text = f"{expected} {question if chance.random() < 0.5 else expected}"
    words = re.findall(r"[\u3400-\u9fff]{1,2}|[^\W_\u3400-\u9fff]+", text)
    chance.shuffle(words)
    return (", " if chance.random() < 0.3 else " ").join(words)


def framed(row: Row, chance: random.Random) -> Row:
    """Returns the row's expected answer as models put it: inside other words, yet correct."""
    text = chance.choice(_SETTINGS[row.language]).format(e=_decapitalised(row.expected.strip()))
    return row._replace(candidate=text, correct=True, refusal=False, kind="framed")


def tricks(row: Row, other: str, chance: random.Random) -> Iterator[Row]:
    """Yields answers that no judge may take for correct, and the expected answer, which it must.

    Args:
        row: Whose question and expected answer are used.
        other: The expected answer to another question in the same language.
        chance: Draws the form.
    """
    e, o, language = row.expected.strip(), other.strip(), row.language
    denial = chance.choice(_DENIALS.get(language, _DENIALS["en"]))
    alternative = chance.choice(_ALTERNATIVES.get(language, _ALTERNATIVES["en"]))
    wrong = {
        "negation": denial.format(e=_decapitalised(e) if denial.endswith("{e}") else e),
        "alternative": alternative.format(e=e, o=_decapitalised(o) if chance.random() < 0.5 else o),
        "digits": _digits_changed(e, chance),
        "name": _name_exchanged(e, _NAME.findall(o), chance),
        "antonym": _turned_round(e, language),
        "keywords": _piled_up(row.question, e, chance),
        "question": f"{row.question} {chance.choice(('', '', row.question))}".strip(),
    }
    for kind, text in wrong.items():
        if text != e:
            yield row._replace(candidate=text, correct=False, refusal=False, kind=kind)
    declined = chance.choice(_DECLINED[language])
    yield row._replace(candidate=declined, correct=False, refusal=True, kind="declined")
    frame = chance.choice(_FRAMES.get(language, ("{e}",)))
    yield row._replace(candidate=frame.format(e=e), correct=True, refusal=False, kind="expected")
