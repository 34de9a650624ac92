"""Verdicts of three made-up models."""

import random
from typing import Any

import pytest

MODELS = {"gpt-4.1": (0.75, "2024-07"), "mistral-large-latest": (0.55, "2023-10"), "own": (0.3, "")}
REGIONS = {
    "the_United_States": 0.1,
    "Brazil": 0.0,
    "France": 0.05,
    "Ethiopia": -0.2,
    "Nigeria": -0.1,
    "World": 0.0,
}
ASKED = ("What opened", "How many came", "Who won", "When was it", "Where did they meet", "Tell")


def made_up() -> list[dict[str, Any]]:
    dice = random.Random(1)
    rows = []
    for region, bonus in REGIONS.items():
        for year in range(2015, 2026):
            for number in range(3):
                month = f"{dice.randint(1, 12):02}"
                name = f"{region}-{year}-{number}"
                luck = dice.gauss(0, 0.15)
                for model, (skill, end) in MODELS.items():
                    known = not end or f"{year}-{month}" <= end
                    for split in ("english", "native"):
                        if split == "native" and region not in ("Brazil", "France", "Ethiopia"):
                            continue
                        cost = 0.25 if split == "native" and region == "Ethiopia" else 0.0
                        right = dice.random() < (skill + bonus + luck - cost) * (
                            1 if known else 0.2
                        )
                        refusal = not right and dice.random() < (0.1 if known else 0.7)
                        rows.append(
                            {
                                "id": name,
                                "event_id": f"event-{name}",
                                "region": region,
                                "split": split,
                                "year": str(year),
                                "month": month,
                                "model": model,
                                "question": f"{ASKED[number + year % 2]} at {name}? ({split})",
                                "answer": f"The answer of {name}.",
                                "model_answer": f"{model} says so of {name}.",
                                "correct": None if name.endswith("2019-1") else right,
                                "refusal": refusal,
                                "reasoning": f"Because {name}.",
                                "judge": "a-judge",
                                "source_url": f"https://news.example/{name}",
                            }
                        )
    return rows


@pytest.fixture(scope="session")
def verdicts() -> list[dict[str, Any]]:
    return made_up()
