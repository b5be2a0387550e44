"""Pages and tables of the reference that come from the code say all that the code has, and a difference is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import llm_do_temporal
from llm_do_temporal import errors
from llm_do_temporal.environment import KNOWN
from llm_do_temporal.errors import error_classes
from scripts import check_docs
from scripts.pages import errors as errors_page
from scripts.pages import key_tables
from scripts.pages import python as python_page
from scripts.pages.key_tables import TableError

ROOT = Path(__file__).parents[3]
TABLE = """\
Text.

<!-- keys: attachment_policy -->
| key | type | default | meaning |
|---|---|---|---|
| `max_attachments` | number | 4 | how many |
| `max_total_bytes` | number | 20000000 | of all |
| `allowed_suffixes`, `denied_suffixes` | list | none | like `.pdf` |

More text.
"""


def test_a_table_that_says_what_the_model_says_stays_as_it_is() -> None:
    assert key_tables.render(TABLE) == TABLE


def test_types_and_defaults_are_those_of_the_model_and_meanings_those_of_the_page() -> None:
    changed = TABLE.replace("| number | 4 |", "| text | 5 |").replace("how many", "not many")
    assert key_tables.render(changed) == TABLE.replace("how many", "not many")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TABLE.replace("`allowed_suffixes`, ", ""), "the table 'attachment_policy' lacks allowed_suffixes"),
        (TABLE.replace("`max_total_bytes`", "`max_total_bytes`, `largest`"), "has largest, which no file has"),
        (TABLE.replace("keys: attachment_policy", "keys: gone"), "there is no table 'gone'; there are: worker file,"),
    ],
)
def test_a_table_with_other_keys_than_the_model_is_a_fault(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        key_tables.render(text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "keys.md").write_text(text)
    (fault,) = check_docs.check_docs(tmp_path, lambda: ())
    assert message in fault.message


def test_every_model_of_keys_has_its_table_in_the_documentation() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    marks = [mark for page in pages for mark in re.findall(r"^<!-- keys: (.+) -->$", page, re.MULTILINE)]
    assert sorted(marks) == sorted(key_tables.tables())


def test_every_variable_of_ours_is_in_the_reference() -> None:
    reference = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md"))
    assert [name for name in sorted(KNOWN) if f"`{name}`" not in reference] == []


def test_every_error_and_every_public_name_is_in_the_reference() -> None:
    page = errors_page.render()
    public = {name for name, cls in error_classes().items() if cls.__module__ == errors.__name__}
    assert {name for name in public if f"`{name}`" not in page} == set()
    assert all(f"| `{name}" in python_page.render() for name in llm_do_temporal.__all__)


@pytest.mark.parametrize("name", ["RunAborted", "ApprovalTimedOut"])
def test_who_must_act_on_an_error_is_not_cut_out_of_a_name(name: str) -> None:
    (row,) = [line for line in errors_page.render().splitlines() if f"`{name}` |" in line]
    assert row.split(" | ")[2] == "the operator"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", list(check_docs.WRITTEN))
def test_a_written_page_that_was_changed_by_hand_is_a_fault(tmp_path: Path, page: Path) -> None:
    script = check_docs.WRITTEN[page]
    (tmp_path / page).parent.mkdir(parents=True)
    (tmp_path / page).write_text(check_docs.render_written(script) + "One more.\n")
    (fault,) = check_docs.check_written(tmp_path, check_docs.render_written)
    assert fault.message.endswith(f"write it anew with `python scripts/{script}.py`")
