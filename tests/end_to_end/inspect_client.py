"""Runs a published release as Inspect's benchmark with mock models; prints what came of it."""

import json
import sys

from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, ModelUsage, get_model


def outputs(*texts: str) -> list[ModelOutput]:
    """Returns replies with usage: without it the mock would fetch a tokenizer."""
    replies = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    for reply in replies:
        reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return replies


task, logs = sys.argv[1:]
n = 4
(log,) = run(
    task,
    model=get_model("mockllm/model", custom_outputs=outputs(*["Answer: 42"] * n)),
    model_roles={
        "grader": get_model(
            "mockllm/model",
            custom_outputs=outputs(
                '{"reasoning": "The same.", "correct": true, "refusal": false}',
                '{"reasoning": "Another.", "correct": false, "refusal": false}',
                "No verdict at all.",
                '{"reasoning": "None.", "correct": false, "refusal": true}',
            ),
        )
    },
    limit=n,
    max_samples=1,
    max_connections=1,
    log_dir=logs,
    display="none",
)
assert log.samples
print(
    json.dumps(
        {
            "status": log.status,
            "error": log.error and log.error.traceback[-1500:],
            "values": [next(iter(s.scores.values())).value for s in log.samples if s.scores],
            "questions": [str(s.input) for s in log.samples],
            "asked": [str(s.messages[0].content) for s in log.samples],
            "targets": [s.target for s in log.samples],
        }
    )
)
