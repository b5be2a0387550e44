"""Faults at the front: the client library, the command line, the pages and the worker service."""

from __future__ import annotations

from scripts.faults.fault import Fault

FRONT = (
    Fault(
        "client-decides-a-question-twice",
        "llm_do_temporal/client/decisions.py",
        "asked = list(dict.fromkeys(questions))",
        "asked = list(questions)",
        ("tests/unit/client/test_many_decisions.py",),
    ),
    Fault(
        "client-counts-files-of-items-alone",
        "llm_do_temporal/client/start.py",
        "check_attachments(policy, [*beside, *attachments], whose=whose)",
        "check_attachments(policy, attachments, whose=whose)",
        ("tests/unit/client/test_start.py",),
    ),
    Fault(
        "client-list-ignores-text-in-ids",
        "llm_do_temporal/policy/run_filter.py",
        "return words in task.casefold() or words in run.casefold()",
        "return words in task.casefold() and words in run.casefold()",
        ("tests/unit/policy/test_run_filter.py",),
    ),
    Fault(
        "cli-error-reported-as-success",
        "llm_do_temporal/cli/output.py",
        '"is_error": self.error is not None,',
        '"is_error": self.error is None,',
        ("tests/unit/cli/test_output.py",),
    ),
    Fault(
        "cli-takes-half-written-file",
        "llm_do_temporal/cli/files.py",
        "if now != self._known and now == before and whole:",
        "if now != self._known and whole:",
        ("tests/unit/cli/test_saved_files.py",),
    ),
    Fault(
        "cli-prints-control-characters",
        "llm_do_temporal/cli/output.py",
        'return "".join(char if char == "\\n" or char.isprintable() else _escaped(char) for char in text)',
        "return text",
        ("tests/unit/cli/test_output.py", "tests/unit/cli/test_safe_text.py"),
    ),
    Fault(
        "ui-form-without-session-token",
        "llm_do_temporal/ui/guard.py",
        "if not is_same_text(_text(given), visitor.csrf):",
        "if given is not None and not is_same_text(_text(given), visitor.csrf):",
        ("tests/unit/ui/test_middleware.py",),
    ),
    Fault(
        "ui-header-of-any-caller-counts",
        "llm_do_temporal/ui/access.py",
        "if caller.peer not in self._proxies or not user or",
        "if not user or",
        ("tests/unit/ui/test_users.py", "tests/unit/ui/test_middleware.py"),
    ),
    Fault(
        "ui-session-never-ends",
        "llm_do_temporal/ui/access.py",
        "not -_CLOCK_SECONDS <= age < SESSION_SECONDS:",
        "age < -_CLOCK_SECONDS:",
        ("tests/unit/ui/test_middleware.py", "tests/security/test_page_door.py"),
    ),
    Fault(
        "ui-sign-in-leads-elsewhere",
        "llm_do_temporal/ui/guard.py",
        'token, target = token.strip(), target if _PLACE.fullmatch(target) else "/"',
        "token = token.strip()",
        ("tests/unit/ui/test_middleware.py", "tests/security/test_page_door.py"),
    ),
    Fault(
        "service-half-of-a-pair-of-settings",
        "worker_service/settings.py",
        "if value is None or other_value is None:",
        "if value is None:",
        ("tests/unit/worker_service/test_settings.py",),
    ),
)
