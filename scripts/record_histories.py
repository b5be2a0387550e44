"""Records the histories that `tests/replay` holds every later version against.

Runs one integration test for each feature of the table that has no history of this version yet. What is stored is
never written anew: a change after which it does not replay needs `workflow.patched`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from llm_do_temporal import __version__

ROOT = Path(__file__).parents[1]
HISTORIES = ROOT / "tests" / "replay" / "histories"
FEATURES = {
    "allowed": "test_kinds.py::test_an_entry_lets_calls_of_the_whole_tree_through_and_stands_in_the_audit",
    "approval-by-signal": "test_approvals.py::test_an_approved_call_is_carried_out[signal]",
    "attachments": "test_approval_policy.py::test_sharing_asks_per_attachment_and_then_the_call_asks",
    "batch": "test_batches.py::test_questions_of_all_items_are_answered_at_the_run",
    "batch-continued": "test_batches.py::test_a_batch_goes_on_as_new_and_forgets_nothing",
    "batch-yielding": "test_batches.py::test_items_that_wait_for_a_person_hold_up_no_other_and_go_on_when_answered",
    "call-from-python": "test_calling_from_python.py::"
    "test_a_plain_call_has_the_workers_files_asks_at_its_run_and_counts_there",
    "cancellation": "test_cancellation.py::test_cancelling_reaches_every_child",
    "continued": "test_long_conversations.py::test_an_approval_is_answered_after_an_invocation_went_on_as_new",
    "deadline": "test_approval_policy.py::test_on_timeout_fail_ends_the_worker_that_asked_and_its_caller_is_told",
    "delegation": "test_delegation.py::test_delegations_of_one_turn_run_side_by_side",
    "depth": "test_delegation.py::test_exactly_max_depth_runs_and_one_more_is_refused_without_a_child",
    "evaluation": "extensions/evaluations/test_evaluations.py"
    "::test_cases_and_judgements_run_once_and_what_is_added_runs_alone",
    "evaluation-continued": "extensions/evaluations/test_evaluations.py"
    "::test_an_experiment_goes_on_in_new_histories_with_what_it_has",
    "external-toolset": "test_external_toolsets.py::test_a_call_asks_and_a_changed_call_runs_as_changed",
    "failed-child": "test_delegation.py::test_a_child_that_fails_is_a_tool_result_and_the_parent_goes_on",
    "fallback-models": "test_failing_models.py::test_when_the_last_fails_too_the_first_is_asked_again",
    "files": "test_files.py::test_a_worker_writes_reads_edits_and_lists",
    "fork": "extensions/forks/test_changed_forks.py::test_a_changed_child_runs_alone_and_its_sibling_is_reused",
    "grant-by-kind": "test_kinds.py::test_a_grant_for_two_answers_two_of_eight_calls_at_once_and_can_be_taken_back",
    "grant-continued": "test_kinds.py::test_a_run_that_is_continued_as_new_takes_its_grant_along",
    "held": "test_undo.py::test_a_decision_that_is_left_alone_takes_effect_by_itself",
    "limits": "test_limits.py::test_approving_goes_on_by_as_much_again_and_a_change_by_another_amount",
    "mistyped-context": "test_templates.py"
    "::test_a_word_that_looks_like_a_path_and_is_none_is_an_error_that_names_what_was_meant",
    "modify": "test_approvals.py::test_modified_arguments_are_the_ones_that_are_used",
    "output-validators": "test_structured_output.py::test_validators_of_the_class_run_and_what_they_make_is_the_result",
    "notifications": "test_notifications.py::test_a_question_its_decision_and_the_end_are_told_in_order",
    "python-tools": "test_python_tools.py::test_a_call_asks_unless_a_rule_says_otherwise",
    "provider-batches": "test_provider_batches.py::test_turns_go_through_batches_and_cost_half",
    "queues": "test_queues.py::test_a_run_goes_on_where_the_files_are_not",
    "queues-changed": "test_queues.py::test_a_run_that_began_beside_its_files_goes_on_where_they_are_not",
    "quorum": "test_approval_policy.py::test_two_of_those_named_must_agree_and_nobody_to_their_own_run",
    "refusal-aborts": "test_approval_policy.py::test_an_aborted_run_stops_its_other_children",
    "remembered": "test_approvals.py::test_a_remembered_rejection_refuses_the_identical_call_and_asks_for_another",
    "revoked": "test_approval_policy.py::test_a_revoked_decision_is_asked_for_again",
    "scheduled-files": "extensions/schedules/test_scheduled_files.py::test_a_file_is_read_anew_by_each_run",
    "scheduled-items": "extensions/schedules/test_scheduled_files.py"
    "::test_items_are_the_files_that_match_when_the_run_begins",
    "shell": "test_shell.py::test_a_question_shows_the_exact_command_and_where_it_would_run",
    "start-files": "test_attachments.py::test_files_given_at_the_start_reach_the_entry_worker",
    "structured-output": "test_structured_output.py::test_a_worker_may_use_tools_before_it_gives_its_result",
    "template-facts": "test_templates.py::test_afterwards_one_can_tell_which_template_ran_with_what_and_run_it_again",
    "templates": "test_templates.py::test_the_configuration_of_the_reference_evaluates_a_deck",
    "tool-context": "test_tool_context.py::test_two_workers_run_side_by_side_and_a_write_asks",
    "typed-input": "test_typed_input.py::test_input_parts_make_the_prompt_and_attach_the_callers_files",
    "undone": "test_undo.py::test_decisions_on_questions_of_others_are_held_taken_back_and_replaced_too",
    "unknown-outcome": "test_unknown_outcomes.py::test_a_person_is_asked_whether_to_run_it_again[approve]",
    "worker-create": "test_worker_creation.py::test_a_worker_is_made_and_called_in_the_same_run",
}
"""Features, each with the test in tests/integration whose histories show it. Big values have none: a replay would
need the blob store that keeps them."""


def record(features: Mapping[str, str] = FEATURES, into: Path = HISTORIES) -> list[Path]:
    """The new folders, for the features that have none of this version; raises SystemExit if a test fails."""
    folders = {into / f"{__version__}-{feature}": test for feature, test in features.items()}
    new = {folder: test for folder, test in folders.items() if not folder.exists()}
    if not new:
        return []
    with tempfile.TemporaryDirectory() as temporary:
        tests = [f"tests/integration/{test}" for test in new.values()]
        environment = {**os.environ, "LLM_DO_RECORD_HISTORIES": temporary}
        if subprocess.call([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, env=environment):
            sys.exit("nothing was recorded, because of these tests")
        for folder, test in new.items():
            shutil.copytree(Path(temporary) / test.rpartition("::")[2], folder)
    return list(new)


if __name__ == "__main__":
    recorded = record()
    print("\n".join(str(folder.relative_to(ROOT)) for folder in recorded) or f"{__version__} has all its histories")
