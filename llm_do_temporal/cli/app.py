"""The program: its commands, and the settings that they share.

Owns the list of commands. Each is a function of a module in `commands`; `completion` is here, since it needs the list.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from cyclopts import App, Group, Parameter

from llm_do_temporal.cli.command_help import COMMAND_HELP, OTHER, PROGRAM_FLAGS, START
from llm_do_temporal.cli.commands.approvals import approvals, approve, modify, reject, undo, watch_approvals
from llm_do_temporal.cli.commands.certify import certify
from llm_do_temporal.cli.commands.codec_server import codec_server
from llm_do_temporal.cli.commands.definitions.check import check
from llm_do_temporal.cli.commands.definitions.schema import schema
from llm_do_temporal.cli.commands.doctor import doctor
from llm_do_temporal.cli.commands.doors.acp import acp
from llm_do_temporal.cli.commands.doors.lsp import lsp
from llm_do_temporal.cli.commands.doors.mcp import mcp
from llm_do_temporal.cli.commands.doors.slack import slack
from llm_do_temporal.cli.commands.doors.tokens import create_token, list_tokens, revoke_token
from llm_do_temporal.cli.commands.evaluations import (
    add,
    compare,
    evaluate,
    export_experiment,
    list_evaluations,
    show_evaluation,
)
from llm_do_temporal.cli.commands.export import export, logs
from llm_do_temporal.cli.commands.forks.difference import diff
from llm_do_temporal.cli.commands.forks.fork import fork
from llm_do_temporal.cli.commands.forks.trial import try_worker
from llm_do_temporal.cli.commands.gc import gc
from llm_do_temporal.cli.commands.models import models
from llm_do_temporal.cli.commands.policy.grants import grants, revoke
from llm_do_temporal.cli.commands.reviews.review import review
from llm_do_temporal.cli.commands.rules import rules, suggest, try_rules
from llm_do_temporal.cli.commands.runs import cancel, delete, list_runs, show
from llm_do_temporal.cli.commands.schedules import (
    backfill_schedule,
    create_schedule,
    delete_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
    show_schedule,
    trigger_schedule,
)
from llm_do_temporal.cli.commands.serve import dev, migrate_check, worker
from llm_do_temporal.cli.commands.start import start
from llm_do_temporal.cli.commands.ui import ui
from llm_do_temporal.cli.commands.watch import result, watch
from llm_do_temporal.cli.commands.workshop import import_command, init
from llm_do_temporal.cli.text import PROGRAM

app = App(
    name=PROGRAM,
    help="Run LLM workers as durable Temporal workflows, with precise human approvals.",
    version=lambda: version(PROGRAM),
    default_parameter=Parameter(negative=(), show_default=False),
    help_format="plaintext",
    help_epilogue=START,
    group_commands=PROGRAM_FLAGS,
    usage=f"Usage: {PROGRAM} COMMAND …    ({PROGRAM} COMMAND --help tells more)",
)


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script with which a shell completes commands and flags.

    Parameters
    ----------
    shell
        Which shell is to run it, from its start file.
    """
    print(app.generate_completion(shell=shell))
    if shell == "zsh":
        # The script only defines what completes us, for a file of zsh's own folders.
        print(f"compdef _cyclopts_{PROGRAM} {PROGRAM}")


_COMMANDS = {
    "start": start,
    "try": try_worker,
    "watch": watch,
    "result": result,
    "show": show,
    "fork": fork,
    "diff": diff,
    "logs": logs,
    "export": export,
    "list": list_runs,
    "cancel": cancel,
    "delete": delete,
    "schedule": list_schedules,
    "eval": evaluate,
    "approvals": approvals,
    "approve": approve,
    "reject": reject,
    "modify": modify,
    "undo": undo,
    "review": review,
    "grants": grants,
    "revoke": revoke,
    "rules": rules,
    "dev": dev,
    "worker": worker,
    "ui": ui,
    "mcp": mcp,
    "acp": acp,
    "lsp": lsp,
    "slack": slack,
    "token": list_tokens,
    "gc": gc,
    "migrate-check": migrate_check,
    "codec-server": codec_server,
    "check": check,
    "schema": schema,
    "certify": certify,
    "import": import_command,
    "init": init,
    "doctor": doctor,
    "models": models,
    "completion": completion,
}
for _order, (_name, _command) in enumerate(_COMMANDS.items()):
    _help = COMMAND_HELP.get(_name, OTHER)
    app.command(
        _command,
        name=_name,
        sort_key=_order,
        group=_help.group,
        usage=_help.usage_line(_name),
        help_epilogue=_help.epilogue,
    )
app["approvals"].command(watch_approvals, name="watch", group=Group("Commands"), help_epilogue="")
_RULES = Group("Commands")
app["rules"].command(suggest, name="suggest", group=_RULES, help_epilogue="")
app["rules"].command(try_rules, name="test", group=_RULES, help_epilogue="")
_SCHEDULES = Group("Commands")
app["schedule"].command(create_schedule, name="create", group=_SCHEDULES, help_epilogue="")
app["schedule"].command(show_schedule, name="show", group=_SCHEDULES, help_epilogue="")
app["schedule"].command(pause_schedule, name="pause", group=_SCHEDULES, help_epilogue="")
app["schedule"].command(resume_schedule, name="resume", group=_SCHEDULES, help_epilogue="")
app["schedule"].command(trigger_schedule, name="trigger", group=_SCHEDULES, help_epilogue="")
app["schedule"].command(backfill_schedule, name="backfill", group=_SCHEDULES, help_epilogue="")
app["schedule"].command(delete_schedule, name="delete", group=_SCHEDULES, help_epilogue="")
_TOKENS = Group("Commands")
app["token"].command(create_token, name="create", group=_TOKENS, help_epilogue="")
app["token"].command(revoke_token, name="revoke", group=_TOKENS, help_epilogue="")
_EVALUATIONS = Group("Commands")
app["eval"].command(list_evaluations, name="list", group=_EVALUATIONS, help_epilogue="")
app["eval"].command(show_evaluation, name="show", group=_EVALUATIONS, help_epilogue="")
app["eval"].command(compare, name="compare", group=_EVALUATIONS, help_epilogue="")
app["eval"].command(export_experiment, name="export", group=_EVALUATIONS, help_epilogue="")
app["eval"].command(add, name="add", group=_EVALUATIONS, help_epilogue="")
COMMANDS: frozenset[str] = frozenset(_COMMANDS)
"""Every command of this release."""
