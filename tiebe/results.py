"""Results of others as rows: upstream's judged answers, the samples that lm-eval logs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiebe.answers import flat, without_label
from tiebe.errors import RecordError, UnjudgedError
from tiebe.llm import visible
from tiebe.models import find_model
from tiebe.records import Answer, from_row, read_rows

__all__ = ["apart", "read_answers", "read_upstream", "read_verdicts"]

_UPSTREAM, _SAMPLES = "*-answers_judged.json*", "samples_*.jsonl"
_FIELDS = ("id", "event_id", "region", "language", "split", "year", "month")


def read_verdicts(path: Path) -> Iterator[dict[str, Any]]:
    """Yields rows with verdicts, as they stand.

    Args:
        path: A run folder, a JSONL file, or upstream's files, see `read_upstream`.

    Raises:
        UnjudgedError: A folder holds no verdict.
        RecordError: See `tiebe.records.read_rows`; every row must have `correct`.
    """
    if path.is_dir() and _files(path, _SAMPLES):
        raise UnjudgedError(
            f"{path}: lm-eval's samples are answers without verdicts: judge them by `tiebe judge "
            f"{path} --out FILE`"
        )
    if _files(path, _UPSTREAM):
        yield from read_upstream(path)
    else:
        yield from read_rows(path, "correct")


def apart(runs: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yields the rows of all runs; a model that answers the same question in two is told apart.

    It is then named with its run, as `gpt-4.1 (second)`: two answers to a question are not twice as
    many questions.

    Args:
        runs: By name the rows with verdicts.
    """
    kept = {name: [dict(row) for row in rows] for name, rows in runs.items()}
    found: dict[tuple[str, ...], str] = {}
    twice: set[str] = set()
    for name, rows in kept.items():
        for row in rows:
            if found.setdefault(_asked(row), name) != name:
                twice.add(str(row.get("model") or ""))
    for name, rows in kept.items():
        for row in rows:
            model = str(row.get("model") or "")
            if model in twice:
                known = find_model(model)
                if known is not None and known.cutoff:
                    row.setdefault("knowledge_cutoff", known.cutoff)
                row["model"] = f"{model} ({name})".strip()
            yield row


def _asked(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Who was asked what."""
    place = ("region", "row") if not row.get("id") and "row" in row else ("id", "question")
    names = ("model", *place, "split", "language")
    return tuple(str(row.get(name) or "") for name in names)


def read_answers(path: Path, *required: str) -> Iterator[dict[str, Any]]:
    """Yields rows with answers.

    Args:
        path: What `read_verdicts` takes; a run folder gives its answers, judged or not. And the
            samples of lm-eval (`--log_samples`): a file or the folder it wrote them into.
        required: Names of fields that every row must have.

    Raises:
        RecordError: See `tiebe.records.read_rows`.
    """
    samples = _files(path, _SAMPLES)
    if not samples and not _files(path, _UPSTREAM):
        for row in read_rows(path, *required, stage="answer"):
            yield flat(from_row(Answer, row)) if row.get("record") == "Answer" else row
    for file in samples:
        yield from _lm_eval(file)
    yield from read_upstream(path)


def read_upstream(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of upstream's judged answers, a file's or those of all in a folder.

    What a row leaves out is told by the names: `<model>/<slug>-answers_judged.json`, under a
    folder `native` or `translated` where they are in the native language.

    Raises:
        RecordError: See `tiebe.records.read_rows`.
    """
    for file in _files(path, _UPSTREAM):
        folders = " ".join(file.parts[:-1]).casefold()
        split = "native" if "native" in folders or "translated" in folders else "english"
        slug = file.name.partition("-answers_judged")[0]
        for number, row in enumerate(read_rows(file, "correct")):
            known = {"row": number, "model": file.parent.name}
            if not row.get("language") and not row.get("split"):
                known["split"] = split
            yield {**known, **row, "region": slug}


def _files(path: Path, pattern: str) -> list[Path]:
    """The files of a kind that a path names: itself, or those in the folder."""
    if path.is_dir():
        return sorted(path.rglob(pattern))
    return [path] if path.match(pattern) else []


def _lm_eval(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of lm-eval's samples: each document once, with the reply as the model gave it."""
    model = _lm_eval_model(path.parent)
    seen = set()
    for number, row in enumerate(read_rows(path, "doc_id", "doc", "resps"), 1):
        if row["doc_id"] in seen:  # one line per filter of the task
            continue
        seen.add(row["doc_id"])
        doc, reply = row["doc"], row["resps"]
        while isinstance(reply, list) and reply:
            reply = reply[0]
        if not isinstance(doc, dict) or not isinstance(reply, str):
            raise RecordError(f"{path}:{number}: doc: expected a row of questions and a reply")
        answer = doc.get("answer", row.get("target"))
        if not isinstance(doc.get("question"), str) or not isinstance(answer, str):
            raise RecordError(f"{path}:{number}: doc.question: no task of questions and answers")
        known = {name: doc[name] for name in _FIELDS if doc.get(name) is not None}
        texts = {"question": doc["question"], "answer": answer}
        yield {
            **known,
            **texts,
            "model": model,
            "model_answer": without_label(visible(reply)),
            "raw": reply,
        }


def _lm_eval_model(folder: Path) -> str:
    """The model's name, from the results beside its samples, else from the folder's name."""
    for path in sorted(folder.glob("results_*.json")):
        try:
            found = json.loads(path.read_bytes())
        except ValueError as error:
            raise RecordError(f"{path}: no JSON: {error}") from error
        if isinstance(found, dict) and found.get("model_name"):
            return str(found["model_name"])
    return folder.name.replace("__", "/")
