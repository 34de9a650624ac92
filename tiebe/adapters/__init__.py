"""TiEBe as a task of other people's harnesses, each an extra of its own.

What is asked is the prompt `answer`, what judges is `tiebe.Judge`: a harness brings the model and
counts. None of its packages is imported before it itself imports its adapter.
"""

from pathlib import Path

__all__ = ["LM_EVAL"]

LM_EVAL = Path(__file__).with_name("lm_eval_tasks")
"""What lm-evaluation-harness takes as `--include_path`."""
