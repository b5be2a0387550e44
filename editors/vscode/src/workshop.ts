/** Where the workshop of a file is. Knows nothing of VS Code. */

import * as fs from "node:fs";
import * as path from "node:path";

const WORKSHOP_FILE = "workshop.yaml";

/** The nearest folder with a workshop file from `start` up to `root`, else `root`. */
export function workshopOf(start: string, root: string): string {
  const top = path.resolve(root);
  for (let folder = path.resolve(start); isWithin(folder, top); folder = path.dirname(folder)) {
    if (fs.existsSync(path.join(folder, WORKSHOP_FILE))) {
      return folder;
    }
    if (folder === top) {
      break;
    }
  }
  return top;
}

function isWithin(folder: string, top: string): boolean {
  const way = path.relative(top, folder);
  return way === "" || (way !== ".." && !way.startsWith(".." + path.sep) && !path.isAbsolute(way));
}
