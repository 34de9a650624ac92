"""The offline judge: what it says, what it must not settle, and how well it imitates."""

import io
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tiebe import judge
from tiebe.cascade import SHARES
from tiebe.lexical import read, spoken
from tiebe.offline import (
    NAME,
    Judgement,
    judge_offline,
    load,
    read_model,
    settles,
    write_model,
)

ROOT = Path(__file__).resolve().parents[1]
DATA_FILE = ROOT / "tiebe" / f"{NAME}.npz"
QUESTION = "Who was elected president of Brazil in October 2018?"
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


LANGUAGES = ("en", "en", "pt", "es", "fr", "de", "ru", "tr", "zh", "am", "tpi", "uk", "id", "hi")


def declines(text: str, language: str | None = None) -> bool:
    return one(QUESTION, "Jair Bolsonaro", text, language=language).refusal


@pytest.mark.parametrize(("language", "text"), list(zip(LANGUAGES, REFUSALS, strict=True)))
def test_a_refusal_is_seen_in_every_language(language: str, text: str) -> None:
    assert declines(text, language)
    assert declines("Answer: " + text.upper(), language)


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not declines(text)


def one(question: str, expected: str | Sequence[str], candidate: str, **of: Any) -> Judgement:
    accepted = [expected] if isinstance(expected, str) else expected
    (said,) = judge_offline([question], [accepted], [candidate], [of.get("language")])
    return said


@pytest.mark.parametrize(
    ("expected", "candidate", "correct", "refusal"),
    [
        ("Jair Bolsonaro", "It was Jair Bolsonaro.", True, False),
        ("Jair Bolsonaro", "Answer: Bolsonaro", True, False),
        ("Jair Bolsonaro", "Fernando Haddad was elected president.", False, False),
        ("Jair Bolsonaro", "I do not know who won that election.", False, True),
        ("Jair Bolsonaro", "", False, False),
        ("Jair Bolsonaro", QUESTION, False, False),
    ],
)
def test_what_it_says(expected: str, candidate: str, correct: bool, refusal: bool) -> None:
    said = one(QUESTION, expected, candidate)
    assert (said.correct, said.refusal) == (correct, refusal)
    assert 0.5 <= said.confidence <= 1 and said.margin >= 0 and said.language == "en"


def test_the_verdict_says_whom_it_imitates_and_why() -> None:
    texts = QUESTION, "Jair Bolsonaro", "It was Jair Bolsonaro."
    verdict = judge(*texts, model="offline")
    assert verdict.judge == "offline-1, imitates DeepSeek-V3" and verdict.decided_by == "offline"
    assert verdict.confidence == one(*texts).confidence and verdict.prompt == ""
    assert verdict.reasoning == "it says what is expected"
    doubted = judge(*texts[:2], "Jair Bolsonaro was elected, not Haddad.", model="offline")
    assert not doubted.correct or "in doubt: negation" in doubted.reasoning


def test_the_best_of_several_accepted_answers_counts() -> None:
    accepted = ["Fernando Haddad", "Jair Messias Bolsonaro", "Bolsonaro"]
    assert one(QUESTION, accepted, "Bolsonaro").correct
    assert one(QUESTION, accepted, "Bolsonaro") == one(QUESTION, accepted[::-1], "Bolsonaro")
    assert not one(QUESTION, accepted, "Lula").correct


def test_many_are_judged_as_each_alone() -> None:
    texts = [*REFUSALS, *ANSWERS, "Bolsonaro", "Jair Bolsonaro won", QUESTION] * 12  # over 256
    count = len(texts)
    many = judge_offline([QUESTION] * count, [["Jair Bolsonaro"]] * count, texts, [None] * count)
    assert many[:27] == [one(QUESTION, "Jair Bolsonaro", text) for text in texts[:27]]
    assert many[27:] == many[:-27]
    assert judge_offline([], [], [], []) == []


@pytest.mark.parametrize(
    "text",
    ["\x00", "\ud800\udfff", "9" * 9999, "\u0301" * 9999, "{{7*7}}", "a" * 10**6, "Answer:" * 999],
)
def test_strange_texts_get_a_judgement(text: str) -> None:
    for texts in ((text, "Ann", "Ann"), ("Who?", text, "Ann"), ("Who?", "Ann", text)):
        assert 0.5 <= one(*texts).confidence <= 1


# --- settling ------------------------------------------------------------------------------------


def test_what_settles() -> None:
    model = load()
    sure = Judgement(True, False, 0.9999, 9.2, "en")
    assert all(settles(sure, target) for target in (0.9, 0.93, 0.97, 0.99, 0.995))
    assert not settles(sure, 0.999), "no such agreement was ever measured"
    assert not settles(replace(sure, doubt="negation"), 0.9)
    assert settles(replace(sure, correct=False, doubt="negation"), 0.9)
    assert not settles(replace(sure, language="other"), 0.9), "never seen, never settled"
    assert not settles(replace(sure, confidence=0.6), 0.99)
    en = model.thresholds[model.languages.index("en")]
    assert (np.diff(en) >= 0).all() and (en[1:] > 0.6).all()
    assert (model.thresholds[model.languages.index("other")] > 1).all()


@pytest.mark.parametrize("language", ["hi", "uk", "id", "xx"])
def test_nothing_is_settled_in_a_language_without_labels(language: str) -> None:
    said = one("Who?", "Ann Lee", "Ann Lee", language=language)
    assert said.language == "other" and not settles(said, 0.9)


# --- the data file -------------------------------------------------------------------------------


def test_the_data_file_is_small_and_says_the_same_after_a_round_trip() -> None:
    data = DATA_FILE.read_bytes()
    assert len(data) < 300_000
    with DATA_FILE.open("rb") as file:
        model = read_model(file)
    out = io.BytesIO()
    write_model(model, out)
    assert out.getvalue() == data


def test_the_library_reads_it_only_when_it_judges(run_python: Callable[[str], str]) -> None:
    assert run_python("import sys, tiebe; print('tiebe.offline' in sys.modules)") == "False"
    code = "import sys, tiebe.judges; import tiebe.offline as o; print(o.load.cache_info().misses)"
    assert run_python(code) == "0"


@pytest.fixture
def run_python() -> Callable[[str], str]:
    import subprocess
    import sys

    def run(code: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()

    return run


def test_trees_asked_all_at_once_end_where_each_alone_does() -> None:
    forest = load().correct
    dice = np.random.default_rng(0)
    borders = forest.border[np.isfinite(forest.border)]
    rows = dice.choice(borders, (70, len(forest.names)))  # over a block
    for row, score in [*zip(rows, forest.score(rows), strict=True)][::23]:
        total = 0
        for tree, leaves in enumerate(forest.leaves.tolist()):
            asked = zip(forest.feature[:, tree], forest.border[:, tree], strict=True)
            total += leaves[sum(bool(row[f] > b) << n for n, (f, b) in enumerate(asked))]
        assert score == total / forest.UNIT


# --- quality -------------------------------------------------------------------------------------

FIGURES = json.loads((ROOT / "training" / f"{NAME}.json").read_text("utf-8"))
"""What `training/train_offline.py evaluate` measured, by judges that had not seen what they judge:
neither the model's family nor the region (English), the question (native), the language."""


def test_the_figures_are_those_of_the_data_file() -> None:
    assert FIGURES["data_file"] == sha256(DATA_FILE.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("kind", "agreement", "kappa", "refusal_f1", "off"),
    [
        ("english", 0.9, 0.777, 0.961, 4.5),
        ("native", 0.89, 0.734, 0.943, 4.5),
        ("languages", 0.886, 0.72, 0.937, 9),
    ],
)
def test_how_well_it_imitates_what_it_had_not_seen(
    kind: str, agreement: float, kappa: float, refusal_f1: float, off: float
) -> None:
    found = FIGURES[kind]
    assert found["agreement"] >= agreement and found["kappa"] >= kappa
    assert found["refusal_f1"] >= refusal_f1 and found["off_at_most"] <= off
    assert found["calibration_error"] <= 0.02 or kind == "languages"


@pytest.mark.parametrize(
    ("kind", "target", "settled", "agreement"),
    [
        ("english", "0.99", 0.589, 0.985),
        ("native", "0.99", 0.515, 0.985),
        ("english", "0.97", 0.734, 0.965),
        ("native", "0.97", 0.715, 0.962),
    ],
)
def test_what_a_cascade_settles_of_what_it_had_not_seen(
    kind: str, target: str, settled: float, agreement: float
) -> None:
    found = FIGURES[kind]["cascade"][target]
    assert found["settled"] >= settled and found["agreement"] >= agreement
    assert found["off_at_most"] <= 1 or target != "0.99"
    assert not any(n["settled"] for n in FIGURES["languages"]["cascade"].values())


def test_the_shares_told_before_a_cascade_are_those_measured() -> None:
    found = [FIGURES["english"], FIGURES["native"]]
    for target, share in SHARES.items():
        settled = [f["cascade"][str(target)]["settled"] * f["n"] for f in found]
        assert sum(settled) / sum(f["n"] for f in found) == pytest.approx(share, abs=0.005)


CONTRARY = {
    "en": "It was never the case that {g}|{g}: this is false.|No: {g} is a myth|{g}? Wrong.",
    "es": "Nunca ocurrió esto: {g}|{g}: eso es falso",
    "pt": "Nunca aconteceu isto: {g}|{g}: isso é falso",
    "fr": "Cela n'est jamais arrivé : {g}|{g} : c'est faux",
    "de": "Niemals geschah dies: {g}|{g}: das ist falsch",
    "ru": "Этого никогда не было: {g}|{g}: это ложно",
    "tr": "{g} hiç olmadı|{g}: bu yanlış",
    "zh": "从来没有发生过：{g}|{g}，并非如此",
    "am": "{g} ፈጽሞ አልሆነም|{g}፦ ይህ ሐሰት ነው",
    "tpi": "{g} i no bin kamap|{g}: em i giaman",
}
EITHER = {
    "en": "Perhaps {g}, perhaps {o}|{o}, or maybe {g}|{g} - or was it {o}?|Some say {g}, some {o}",
    "es": "Quizás {g}, quizás {o}|{o}, o tal vez {g}",
    "pt": "Talvez {g}, talvez {o}|{o}, ou então {g}",
    "fr": "Peut-être {g}, peut-être {o}|{o}, ou bien {g}",
    "de": "Vielleicht {g}, vielleicht {o}|{o} oder {g}",
    "ru": "Возможно, {g}, возможно, {o}|{o} или {g}",
    "tr": "Belki {g}, belki {o}|{o} ya da {g}",
    "zh": "也许{g}，也许{o}|{o}，或者{g}",
    "am": "ምናልባት {g} ምናልባት {o}|{o} ወይም {g}",
    "tpi": "Ating {g}, ating {o}|{o} o {g}",
}
NAMED = re.compile(r"\b[A-ZÀ-ÞА-ЯЁ][\w’'-]{3,}")


def fooling(kind: str, row: Any, other: str, chance: random.Random) -> str:
    """An answer that is wrong by construction, made otherwise than those that teach the judge."""
    gold, other = row.answer.strip(" .。"), other.strip(" .。")
    if kind == "negation":
        return chance.choice(CONTRARY[row.code].split("|")).format(g=gold)
    if kind == "alternative":
        return chance.choice(EITHER[row.code].split("|")).format(g=gold, o=other)
    if kind == "digits":
        return re.sub(r"\d+", lambda m: str(int(m[0]) + chance.choice((1, 2, 10))), gold)
    if kind == "name":
        names = [n for n in NAMED.findall(other) if n not in gold]
        own = NAMED.findall(gold)
        return gold.replace(chance.choice(own), chance.choice(names)) if own and names else gold
    if kind == "keywords":
        words = re.findall(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+", f"{gold} {gold} {row.question}")
        return " ".join(sorted(words, key=lambda word: word[::-1]))
    said = chance.choice(("{q}", "{q} {q}", "You ask: {q}", "{q} That is so."))
    return said.format(q=row.question)


def candidates(shared: Path, split: str, kind: str) -> tuple[list[Any], list[str]]:
    """200 questions and wrong answers of a kind."""
    from tiebe.regions import row_language

    rows = pd.read_parquet(shared / "upstream/qa.parquet").query("language == @split")
    rows = rows.assign(code=[row_language("", r, split) for r in rows.region])
    rows = rows[rows.code.isin(list(CONTRARY))].sample(frac=1, random_state=7)
    others = rows.groupby("code").answer.shift(1)
    chance = random.Random(kind)
    made = [
        (row, fooling(kind, row, other, chance))
        for row, other in zip(rows.itertuples(), others, strict=True)
        if isinstance(other, str)
    ]
    kept = [(row, text) for row, text in made if text != row.answer.strip(" .。")][:200]
    assert len(kept) == 200
    return [row for row, _ in kept], [text for _, text in kept]


@pytest.mark.parametrize("split", ["english", "native"])
@pytest.mark.parametrize(
    ("kind", "most"),
    [("negation", 0.02), ("alternative", 0.02), ("digits", 0.02), ("keywords", 0.02)]
    + [("question", 0.02), ("name", 0.25)],
)
def test_what_fools_it_is_not_settled(shared: Path, split: str, kind: str, most: float) -> None:
    rows, texts = candidates(shared, split, kind)
    said = judge_offline(
        [r.question for r in rows], [[r.answer] for r in rows], texts, [r.code for r in rows]
    )
    for target in (0.97, 0.99):
        fooled = [s.correct and settles(s, target) for s in said]
        assert np.mean(fooled) <= most, (kind, target)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_training_learns_and_gives_the_same_twice(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("catboost")
    monkeypatch.syspath_prepend(str(ROOT / "training"))
    import train_offline as training  # type: ignore[import-not-found]

    table = training.load(shared / "upstream", share=0.1)
    train = (table.family != "gpt") & (table.fold != 0)
    unseen = (table.family == "gpt") & (table.fold == 0) & table.judged
    learned, again = (training.learn(table, train) for _ in range(2))
    for name in ("correct", "refusal"):
        one, two = (getattr(of, name).arrays("x") for of in (learned, again))
        assert all(np.array_equal(one[key], two[key]) for key in one)
    assert learned.wording.phrases(table) == again.wording.phrases(table)
    phrases, heard = learned.wording.phrases(table), learned.wording.score(table)
    for place in range(0, len(table.rows), 97):
        row = table.rows[place]
        flat = read(spoken(row.candidate)[0], row.language).flat
        assert phrases.heard(flat) == heard[place].tolist(), "trained on what it will see"
    right, declines = learned.score(table, unseen, heard=True)
    agreed = (right > 0) & (declines <= 0) == table.column("correct")[unseen]
    refused = (declines > 0) == table.column("refusal")[unseen]
    assert unseen.sum() > 100 and agreed.mean() >= 0.75 and refused.mean() >= 0.9
