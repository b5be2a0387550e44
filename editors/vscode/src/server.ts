/** The language server: `llm-do-temporal lsp`, one for the window, and only where the workspace is trusted. */

import * as os from "node:os";
import { commands, env, Uri, window, workspace } from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions, State } from "vscode-languageclient/node";
import { CommandError, INSTALL, readCommand } from "./command";

export const ID = "llm-do-temporal";

const CLIENT_OPTIONS: LanguageClientOptions = {
  documentSelector: [
    { scheme: "file", language: "llm-do-worker" },
    { scheme: "file", pattern: "**/workshop.yaml" },
    { scheme: "file", pattern: "**/*.eval.yaml" },
  ],
  // Markdown of the server comes from files of the workshop: no commands, no HTML.
  markdown: { isTrusted: false, supportHtml: false },
};

export class Server {
  private client: LanguageClient | undefined;
  private queue: Promise<void> = Promise.resolve();

  /** Start it, unless the workspace is not trusted; what goes wrong is told to the person. */
  start(): Promise<void> {
    return this.after(() => this.begin());
  }

  stop(): Promise<void> {
    return this.after(() => this.end());
  }

  restart(): Promise<void> {
    return this.after(async () => {
      await this.end();
      await this.begin();
    });
  }

  /** One thing at a time: two commands in a row never leave two servers. */
  private after(step: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(step, step);
    return this.queue;
  }

  private async begin(): Promise<void> {
    if (!workspace.isTrusted || this.client !== undefined) {
      return;
    }
    try {
      this.client = new LanguageClient(ID, ID, serverOptions(), CLIENT_OPTIONS);
      await this.client.start();
    } catch (error) {
      await this.end();
      void complain("The language server did not start", error);
    }
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client?.state === State.Running) {
      await client.stop();
    }
    await client?.dispose().catch(() => undefined);
  }
}

function serverOptions(): ServerOptions {
  const { program, args } = readCommand(workspace.getConfiguration(ID).get("command"), ["lsp"]);
  // Away from the workspace: nothing in it is found before what PATH names.
  return { command: program, args: [...args], options: { cwd: os.homedir() } };
}

/** Say what did not happen and why, and lead to the setting. */
export async function complain(what: string, error: unknown): Promise<void> {
  const reason = error instanceof Error ? error.message : String(error);
  const text =
    error instanceof CommandError
      ? reason
      : `${what}: ${reason}. Is llm-do-temporal installed (from the folder that has your checkout: ${INSTALL}), and does the setting name it?`;
  const chosen = await window.showErrorMessage(text, "Open Setting", "Copy Install Command");
  if (chosen === "Open Setting") {
    await commands.executeCommand("workbench.action.openSettings", `${ID}.command`);
  } else if (chosen === "Copy Install Command") {
    await env.clipboard.writeText(INSTALL);
  }
}

/** Whether a file is one that `check` can read: on a disk. */
export function isOnDisk(uri: Uri | undefined): uri is Uri {
  return uri?.scheme === "file";
}
