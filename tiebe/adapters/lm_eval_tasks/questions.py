"""The questions of TiEBe as lm-evaluation-harness takes them."""

from typing import Any

from tiebe.answers import forms, items, prompt_of
from tiebe.evaluation import Selection
from tiebe.load import load_tiebe

__all__ = ["load"]


def load(**metadata: Any) -> dict[str, Any]:
    """Returns the split `test`: rows of a release, and in `prompt_text` how each is asked.

    Args:
        **metadata: What `tiebe.load_tiebe` takes, and `prompt`, a version of the prompt `answer`;
            the harness adds its model's arguments, which are none of the questions'.
    """
    known = Selection.__annotations__
    rows = load_tiebe(**{name: value for name, value in metadata.items() if name in known})
    form = forms(metadata.get("prompt"))
    texts = [prompt_of(item, form) for item in items(rows)]
    return {"test": rows.add_column("prompt_text", texts)}
