"""Sections of a review: changes that give power are apart from all others, and each section is decided by itself."""

from __future__ import annotations

from enum import StrEnum

from llm_do_temporal.policy.files.protection import RESERVED_FOLDERS, Protection, folded
from llm_do_temporal.policy.layers.changes import LayerChange

_AUTOMATION_FOLDERS = (
    (".github", "workflows"),
    (".github", "actions"),
    (".gitlab",),
    (".circleci",),
    (".buildkite",),
    (".woodpecker",),
    (".forgejo", "workflows"),
    (".gitea", "workflows"),
    (".ci",),
    (".devcontainer",),
    (".vscode",),
    (".idea",),
    (".zed",),
    (".claude",),
    (".cursor",),
)
_AUTOMATION_FILES = frozenset(
    {
        ".gitlab-ci.yml",
        ".gitlab-ci.yaml",
        ".travis.yml",
        ".drone.yml",
        ".woodpecker.yml",
        ".woodpecker.yaml",
        ".appveyor.yml",
        ".devcontainer.json",
        ".mcp.json",
        ".pre-commit-config.yaml",
        ".gitattributes",
        ".gitmodules",
        ".envrc",
        "appveyor.yml",
        "azure-pipelines.yml",
        "azure-pipelines.yaml",
        "bitbucket-pipelines.yml",
        "cloudbuild.yaml",
        "codeowners",
        "jenkinsfile",
        "lefthook.yml",
        "lefthook.yaml",
        ".lefthook.yml",
        ".lefthook.yaml",
    }
)


class Section(StrEnum):
    """Part of a review that is decided by itself."""

    ORDINARY = "ordinary"
    WORKERS = "workers"
    """Workers that a model has made with `worker_create`."""
    DEFINITIONS = "definitions"
    """Files that define workers or the workshop: whoever writes them can give a worker power."""
    AUTOMATION = "automation"
    """State and hooks of version control, and what servers, editors and coding agents run by themselves."""
    LINKS_OUT = "links_out"
    """Links that lead out of the workshop."""


CAPABILITIES = {
    Section.ORDINARY: "changes.commit",
    Section.WORKERS: "worker.create",
    Section.DEFINITIONS: "sandbox.write.definitions",
    Section.AUTOMATION: "changes.commit.automation",
    Section.LINKS_OUT: "changes.commit.links_out",
}
"""Capability that each section needs: the rules for files that define are the same whichever way they are written."""


def section_of(change: LayerChange, protection: Protection) -> Section:
    """Return the section of a change: of a renamed file, the stricter one of its two paths."""
    found = {_section_of_path(path, protection) for path in change.paths}
    strictest = next(
        section for section in (Section.DEFINITIONS, Section.AUTOMATION, Section.ORDINARY) if section in found
    )
    return Section.LINKS_OUT if strictest is Section.ORDINARY and change.leads_out else strictest


def _section_of_path(path: str, protection: Protection) -> Section:
    parts = folded(path)
    if not RESERVED_FOLDERS.isdisjoint(parts):
        return Section.AUTOMATION
    if parts[-1].startswith(".") and parts[-1] in _AUTOMATION_FILES:
        # Its ending would make it a definition, but no worker can have such a name.
        return Section.AUTOMATION
    if protection.protects(path):
        return Section.DEFINITIONS
    return Section.AUTOMATION if _is_automation(parts) else Section.ORDINARY


def _is_automation(parts: tuple[str, ...]) -> bool:
    if parts[-1] in _AUTOMATION_FILES:
        return True
    # Wherever it lies: a folder of the workshop may be the top of a repository.
    return any(
        parts[start : start + len(folder)] == folder
        for folder in _AUTOMATION_FOLDERS
        for start in range(len(parts) - len(folder) + 1)
    )
