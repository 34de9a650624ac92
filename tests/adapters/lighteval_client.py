"""Runs our tasks on lighteval's Inspect backend; prints what came of them, a line of JSON."""

import contextlib
import json
import os
import sys
from typing import Any

import five_questions
from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from lighteval.main_inspect import eval as command
from lighteval.main_inspect import get_inspect_ai_task
from lighteval.tasks.registry import Registry

TASKS, MODULE = "tiebe_Brazil|0", "tiebe.adapters.lighteval_tasks"


def reply(messages: list[Any], *_: Any) -> ModelOutput:
    """Replies with usage: without it the mock would fetch a tokenizer."""
    output = ModelOutput.from_content("mockllm/model", five_questions.reply(messages[-1].text))
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def scores(config: Any) -> dict[str, float]:
    model = get_model("mockllm/model", custom_outputs=reply)
    (log,) = run(get_inspect_ai_task(config), model=model, display="none")
    assert log.status == "success", log.error
    named = {score.name: score for score in log.results.scores}
    return {
        "n": len(log.samples),
        "accuracy": named["correct"].metrics["accuracy"].value,
        "refusal": named["refusal"].metrics["mean"].value,
        "unscored": named["unscored"].metrics["tiebe/count"].value,
    }


configs = Registry(tasks=TASKS, custom_tasks=MODULE).task_to_configs
told: dict[str, Any] = {name: scores(config) for name, (config,) in configs.items()}
with contextlib.redirect_stdout(open(os.devnull, "w")):  # noqa: PTH123, SIM115
    try:
        command(["mockllm/model"], TASKS, custom_tasks=MODULE)
    except ValueError as error:
        told["command"] = str(error)
sys.stdout.write(json.dumps(told) + "\n")
