/** The command "Check Workshop": `llm-do-temporal check` in a terminal of its own. */

import * as path from "node:path";
import { ProcessExecution, Task, TaskRevealKind, tasks, window, workspace, type WorkspaceFolder } from "vscode";
import { readCommand } from "./command";
import { complain, ID, isOnDisk } from "./server";
import { workshopOf } from "./workshop";

/** Check the workshop of the open file, else that of the first folder. */
export async function checkWorkshop(): Promise<void> {
  if (!workspace.isTrusted) {
    return;
  }
  const folder = currentFolder();
  if (folder === undefined) {
    void window.showInformationMessage("Open a folder with a workshop first.");
    return;
  }
  const uri = window.activeTextEditor?.document.uri;
  const start = isOnDisk(uri) ? path.dirname(uri.fsPath) : folder.uri.fsPath;
  try {
    await tasks.executeTask(checkTask(folder, workshopOf(start, folder.uri.fsPath)));
  } catch (error) {
    void complain("The workshop was not checked", error);
  }
}

function currentFolder(): WorkspaceFolder | undefined {
  const uri = window.activeTextEditor?.document.uri;
  const open = uri === undefined ? undefined : workspace.getWorkspaceFolder(uri);
  return open ?? workspace.workspaceFolders?.find((folder) => isOnDisk(folder.uri));
}

function checkTask(folder: WorkspaceFolder, workshop: string): Task {
  const { program, args } = readCommand(workspace.getConfiguration(ID).get("command"), ["check", "--workshop", workshop]);
  // A process, not a shell: no name of a folder is ever read as a command.
  const task = new Task({ type: ID }, folder, "check", ID, new ProcessExecution(program, [...args]), []);
  task.presentationOptions = { reveal: TaskRevealKind.Always, clear: true };
  return task;
}
