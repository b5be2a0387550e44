/** What VS Code calls: starts the server where that is allowed, and offers two commands. */

import { commands, type ExtensionContext, workspace } from "vscode";
import { checkWorkshop } from "./check";
import { ID, Server } from "./server";

let server: Server | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  const own = (server = new Server());
  context.subscriptions.push(
    commands.registerCommand(`${ID}.check`, checkWorkshop),
    commands.registerCommand(`${ID}.restart`, () => own.restart()),
    workspace.onDidGrantWorkspaceTrust(() => own.start()),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${ID}.command`)) {
        void own.restart();
      }
    }),
  );
  await own.start();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
