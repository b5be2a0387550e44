/** The program that is started, as the setting names it. Knows nothing of VS Code. */

import * as path from "node:path";

/** What installs the program with its language server, from the folder that has the checkout. */
export const INSTALL = "pip install './llm-do-temporal[lsp]'";

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
}

export class CommandError extends Error {}

/**
 * Read the setting `llm-do-temporal.command`.
 *
 * A path that is not absolute would be looked up in the folder that happens to be open, so it is refused.
 */
export function readCommand(setting: unknown, more: readonly string[]): Command {
  if (!Array.isArray(setting) || setting.length === 0 || !setting.every(isWord)) {
    throw new CommandError(
      "'llm-do-temporal.command' must be a list of texts, such as [\"llm-do-temporal\"] or [\"/path/to/.venv/bin/llm-do-temporal\"].",
    );
  }
  const [program, ...args] = setting as [string, ...string[]];
  if (/[\\/]/.test(program) && !path.isAbsolute(program)) {
    throw new CommandError(
      `'llm-do-temporal.command' names '${program}': give a name that is found in PATH, or an absolute path.`,
    );
  }
  return { program, args: [...args, ...more] };
}

function isWord(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "" && !value.includes("\0");
}
