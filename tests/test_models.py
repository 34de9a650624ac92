import datetime as dt

import pytest

from tiebe.models import MODELS, PROVIDERS, find_model


def test_every_model_has_a_provider() -> None:
    assert len(MODELS) == 10
    assert all(model.provider in PROVIDERS for model in MODELS.values())
    assert set(PROVIDERS) == {
        "openai", "huggingface", "together", "deepseek", "mistral", "maritaca", "ollama",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("openai:gpt-4o", "gpt-4o"),
        ("together:deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("mistral-large-latest", "mistral-large"),
        ("sabiazinho-3", "sabiazinho-3"),
        ("Llama-4-Maverick-17B-128E-Instruct-FP8", "llama-4-maverick"),
        ("Qwen2-72B-Instruct", "qwen2-72b"),
        ("Qwen2.5-72B-Instruct-Turbo", "qwen2.5-72b"),
        ("QWEN 2 72B Instruct", "qwen2-72b"),
    ],
)
def test_names(name: str, known: str) -> None:
    assert find_model(name) is MODELS[known]


def test_unknown_models_are_not_guessed() -> None:
    assert find_model("gpt-4.1-nano") is None
    assert find_model("my-server:gpt-4.1") is None


def test_cutoffs() -> None:
    assert MODELS["gpt-4o"].cutoff_date == dt.date(2023, 10, 31)
    assert not MODELS["gpt-4o"].cutoff_is_year
    assert MODELS["sabia-3"].cutoff_date == dt.date(2023, 12, 31)
    assert MODELS["sabia-3"].cutoff_is_year
    assert MODELS["llama-4-maverick"].cutoff_date == dt.date(2024, 8, 31)
    assert MODELS["deepseek-v3"].cutoff_date is None
