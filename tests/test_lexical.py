"""Reading texts in 13 languages: numbers, dates, names, and what a comparison shows."""

import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from tiebe.lexical import (
    KNOWN_LANGUAGES,
    PHRASING,
    features,
    fold,
    guess_language,
    read,
    sentence_sequences,
    spoken,
    word_sequences,
)
from tiebe.vectors import load


def unheard(_: str) -> list[float]:
    return [0.0] * len(PHRASING)


@pytest.mark.parametrize(
    ("text", "language", "numbers"),
    [
        ("Fourteen people and 1,200 tonnes", "en", {14, 1200}),
        ("two hundred and thirty-one", "en", {231}),
        ("3.5 million dollars, 12%", "en", {3.5e6, 12}),
        ("1.200.000 Euro, einundzwanzig Tote", "de", {1.2e6, 21}),
        ("quatre-vingt-dix-sept morts", "fr", {97}),
        ("двадцать три человека, 1 500 раненых", "ru", {23, 1500}),
        ("三十二人遇难，伤者一百二十名", "zh", {32, 120}),
        ("120万人", "zh", {1.2e6}),
        ("treinta y cinco, 2 mil", "es", {35, 2000}),
        ("yirmi üç", "tr", {23}),
    ],
)
def test_numbers_in_digits_and_words(text: str, language: str, numbers: set[float]) -> None:
    assert read(text, language).numbers == numbers


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("on 7 March 2021", "en"),
        ("March 7th, 2021", "en"),
        ("2021-03-07", "en"),
        ("07/03/2021", "pt"),
        ("am 7. März 2021", "de"),
        ("7 марта 2021 года", "ru"),
        ("2021年3月7日", "zh"),
        ("le 7 mars 2021", "fr"),
        ("7 de março de 2021", "pt"),
    ],
)
def test_a_date_is_the_same_however_it_is_written(text: str, language: str) -> None:
    found = read(text, language)
    assert (found.years, found.months, found.days) == ({2021}, {3}, {7})
    assert not found.numbers


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", [""]),
        ("nobody knows", ["nobody knows"]),
        (
            "there is no report of that. yes. it may have happened later",
            ["there is no report of that.", "yes. it may have happened later"],
        ),
        ("the u.s. senate, by 51 to 49", ["the u.s. senate, by 51 to 49"]),
        (
            "我不知道这件事情发生在哪一年因为没有可靠的报道证实。也许是二零二零年。",
            ["我不知道这件事情发生在哪一年因为没有可靠的报道证实。", "也许是二零二零年。"],
        ),
    ],
)
def test_a_short_sentence_is_part_of_the_next(text: str, sentences: list[str]) -> None:
    assert sentence_sequences(text) == [word_sequences(sentence) for sentence in sentences]


def test_a_name_is_the_same_in_latin_and_cyrillic_letters() -> None:
    assert read("It was Vladimir Putin", "en").names <= read("Это Владимир Путин", "ru").forms


def test_may_is_a_month_only_beside_a_number_or_capitalised() -> None:
    assert read("they may leave", "en").months == set()
    assert read("in May", "en").months == read("3 may", "en").months == {5}


def test_a_label_is_no_part_of_an_answer() -> None:
    assert spoken("Let us think. Final answer: Ann")[1].strip() == "ann"
    assert spoken("**Answer:** Ann Lee")[0] == "Ann Lee"
    assert spoken("It was 10:30.") == ("It was 10:30.", "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Who won the election in the north of the country?", "en"),
        ("¿Quién ganó las elecciones en el norte del país?", "es"),
        ("Quem venceu a eleição no norte do país?", "pt"),
        ("Qui a gagné les élections dans le nord du pays ?", "fr"),
        ("Wer hat die Wahl im Norden des Landes gewonnen?", "de"),
        ("Кто победил на выборах?", "ru"),
        ("Хто переміг на виборах у країні?", "uk"),
        ("谁赢得了选举？", "zh"),
        ("ምርጫውን ማን አሸነፈ?", "am"),
        ("चुनाव किसने जीता?", "hi"),
        ("Husat i winim ileksen long dispela yia?", "tpi"),
    ],
)
def test_the_language_is_guessed(text: str, code: str) -> None:
    assert guess_language(text) == code


@pytest.mark.parametrize(
    "text",
    ["", " ", "\x00", "\ud800", "{{}}", "9" * 5000, "1,234," * 3000, "ab" * 10**6, "न" * 9000]
    + ["（：" * 3000, "\u0301" * 9000, "Answer: " * 900, "十百千万亿" * 900, "99/99/9999"],
)
def test_strange_texts_are_read_all_the_same(text: str) -> None:
    for code in (*KNOWN_LANGUAGES, "xx"):
        found = features(text, text, text, code, lambda term: 8.0, unheard, load())
        assert all(value == value and abs(value) < 1e300 for value in found.values())
    guess_language(text)


def test_features_are_the_same_names_in_one_order() -> None:
    def names(*texts: str) -> list[str]:
        return list(features(*texts, "en", lambda term: 8.0, unheard, load()))

    assert names("", "", "") == names("Who?", "Ann, 3 May 2020", "Answer: Bob. He had 3. Not 4.")


def test_a_chain_of_thought_is_heard_by_how_it_closes() -> None:
    def closing(candidate: str) -> tuple[float, float]:
        seen = features("Who?", "Ann", candidate, "en", lambda _: 8.0, unheard, load())
        return seen["closing_length"], seen["closing_declines"]

    thought = "I have no information on this: it lies in the future.\n\nAnswer: "
    assert closing(thought + "355 km") == (6, 0)
    assert closing(thought + "**Unknown**")[1] == 1
    assert closing("Answer: Ann") == (-1, -1)


def compared(
    question: str, expected: str, candidate: str, language: str = "en"
) -> dict[str, float]:
    return features(question, expected, candidate, language, lambda _: 8.0, unheard, load())


def test_numbers_that_add_up_are_seen() -> None:
    due = "All 123 passengers and 9 crew members on board were killed."
    assert compared("How many died?", due, "132")["figure_adds_up"] == 1
    assert compared("How many died?", "132", "123 passengers and 9 crew")["figure_adds_up"] == 1
    assert compared("How many died?", due, "133")["figure_adds_up"] == 0
    assert compared("How many died?", due, "123")["figure_adds_up"] == 0


def test_wanted_words_that_stand_together_tell_more_than_scattered_ones() -> None:
    wanted = "The river Danube flooded Passau."
    near = compared("?", wanted, "Reports say that the Danube had flooded all Passau.")
    far = "Danube is long. " + "Other towns saw rain. " * 9 + "Passau was dry. A cellar flooded."
    apart = compared("?", wanted, far)
    assert near["close_pairs"] > apart["close_pairs"] == 0
    assert near["window_recall"] > apart["window_recall"] > 0
    assert near["best_f1"] > apart["best_f1"] > 0 and near["best_precision"] <= 1
    assert compared("?", wanted, "")["best_f1"] == compared("?", wanted, "")["window_recall"] == 0


def test_no_pattern_loses_its_meaning_in_lower_case() -> None:
    # Patterns are folded, as texts are: what \\W asks for would become \\w, its opposite.
    text = (files("tiebe") / "lexical.toml").read_text("utf-8")
    assert not re.findall(r"\\[A-Z]", text)


def beginnings(parsed: Any) -> tuple[set[str], bool]:
    """What a parsed pattern may begin with, and whether it may match nothing."""
    found: set[str] = set()
    for op, argument in parsed:
        name = str(op)
        if name in ("AT", "ASSERT", "ASSERT_NOT"):
            continue
        empty = False
        if name == "LITERAL":
            found.add(chr(argument))
        elif name == "BRANCH":
            ways = [beginnings(way) for way in argument[1]]
            found.update(*(way for way, _ in ways))
            empty = any(nothing for _, nothing in ways)
        elif name == "SUBPATTERN":
            way, empty = beginnings(argument[3])
            found |= way
        elif name.endswith("_REPEAT"):
            way, nothing = beginnings(argument[2])
            found |= way
            empty = nothing or argument[0] == 0
        else:
            found.add(str(argument))  # a class of characters
        if not empty:
            return found, False
    return found, True


def test_phrases_begin_where_they_are_looked_for() -> None:
    # At the edge of a word, a phrase is tried only before a letter, a digit or these.
    also = {"+", "[(CATEGORY, CATEGORY_WORD)]"}
    tables = tomllib.loads((files("tiebe") / "lexical.toml").read_text("utf-8"))
    for code in set(KNOWN_LANGUAGES) - {"zh", "hi"}:
        allowed = also | ({" "} if code == "es" else set())
        for kind, phrases in tables[code].items():
            for phrase in phrases if isinstance(phrases, list) else ():
                begins, empty = beginnings(re._parser.parse(fold(phrase)))  # type: ignore[attr-defined]
                odd = {b for b in begins - allowed if not (len(b) == 1 and b.isalnum())}
                assert not empty and not odd, (code, kind, phrase)


BOUNDS = {
    "en": ("At least 19 people died.", "About 19 people died."),
    "zh": ("至少19人遇难", "大约19人遇难"),
    "es": ("Al menos 19 muertos", "Unos 19 muertos"),
    "pt": ("Pelo menos 19 mortos", "Cerca de 19 mortos"),
    "fr": ("Au moins 19 morts", "Environ 19 morts"),
    "de": ("Mindestens 19 Tote", "Etwa 19 Tote"),
    "ru": ("Не менее 19 погибших", "Около 19 погибших"),
    "tr": ("En az 19 ölü", "Yaklaşık 19 ölü"),
    "am": ("ቢያንስ 19 ሰዎች", "19 ያህል ሰዎች"),
    "tpi": ("Moa long 19 man i dai", "Klostu 19 man i dai"),
    "uk": ("Щонайменше 19 загиблих", "Близько 19 загиблих"),
    "id": ("Setidaknya 19 orang tewas", "Sekitar 19 orang tewas"),
    "hi": ("कम से कम 19 लोग मारे गए", "लगभग 19 लोग मारे गए"),
}


@pytest.mark.parametrize("language", KNOWN_LANGUAGES)
def test_bounds_of_numbers_are_known_in_every_language(language: str) -> None:
    least, about = BOUNDS[language]
    found = compared("?", least, about, language)
    assert found["least_due"] == found["about_said"] == 1
    assert found["least_said"] == found["about_due"] == 0


@pytest.mark.parametrize(
    ("expected", "candidate", "fits"),
    [
        ("More than 200 were abducted.", "276", 2),
        ("More than 200 were abducted.", "900", 0),
        ("347 were killed.", "Over 300 were killed.", 2),
        ("347 were killed.", "About 350 were killed.", 2),
        ("347 were killed.", "350 were killed.", 1),
        ("347 were killed.", "347", 3),
        ("347 were killed.", "12", 0),
        ("347 were killed.", "Nobody knows.", -1),
    ],
)
def test_a_number_may_fit_without_being_the_same(expected: str, candidate: str, fits: int) -> None:
    assert compared("How many?", expected, candidate)["figure_fits"] == fits


def test_which_of_several_numbers_is_given() -> None:
    expected = "41 people, including 27 students, in 2021."
    found = compared("How many people?", expected, "27 people")
    assert (found["figure_given"], found["figure_same"], found["figure_other"]) == (0, 0, 1)
    found = compared("How many people?", expected, "41, of whom 27 were students")
    assert (found["figure_given"], found["figure_same"], found["figure_other"]) == (1, 1, 0)


def test_forms_of_a_word_are_known_by_how_they_begin() -> None:
    said = compared("Who?", "the veto against Hutus", "It was vetoed by a Hutu.")
    other = compared("Who?", "the veto against Hutus", "The guest was praised.")
    assert said["root_recall"] > 0.5 and said["roots_missed"] == 1
    assert other["root_recall"] == 0 and other["roots_missed"] == 3


def test_each_part_of_a_list_is_looked_for() -> None:
    expected = "Iron ore, coking coal, 13,400 tonnes of steel and copper"
    found = compared("Which?", expected, "Iron ore and copper")
    assert (found["parts"], found["parts_untold"]) == (4, 2)
    assert (found["part_first"], found["part_last"], found["part_least"]) == (1, 1, 0)


def test_the_like_in_other_words_is_near() -> None:
    expected = "The police arrested the mayor."
    near = compared("What?", expected, "The police detained the mayor.")
    far = compared("What?", expected, "The police praised the mayor.")
    assert near["near_recall"] > far["near_recall"] and near["recall"] == far["recall"]
