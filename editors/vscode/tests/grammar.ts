/** Tokens of texts, by the engine of VS Code and the grammars of YAML and Markdown that come from a package. */

import * as fs from "node:fs";
import * as path from "node:path";
import { createOnigScanner, createOnigString, loadWASM } from "vscode-oniguruma";
import { type IGrammar, INITIAL, parseRawGrammar, Registry } from "vscode-textmate";

export interface Token {
  /** Counted from 1. */
  readonly line: number;
  readonly text: string;
  readonly scopes: readonly string[];
}

const OWN = "syntaxes/worker.tmLanguage.json";
/** A folder of `<scope>.json` that is used instead, such as the grammars of one version of VS Code. */
const OTHERS = process.env["GRAMMARS"];
const FOREIGN: Readonly<Record<string, string>> = {
  "source.yaml": "yaml",
  "text.html.markdown": "markdown",
  "text.html.basic": "html",
  "text.html.derivative": "html-derivative",
  "source.python": "python",
};

function fileOf(scope: string): string | undefined {
  if (scope === "source.llm-do-worker") {
    return OWN;
  }
  if (OTHERS !== undefined) {
    return path.join(OTHERS, `${scope}.json`);
  }
  const name = FOREIGN[scope];
  return name === undefined ? undefined : require.resolve(`tm-grammars/grammars/${name}.json`);
}

async function loadGrammar(): Promise<IGrammar> {
  await loadWASM(fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
  const registry = new Registry({
    onigLib: Promise.resolve({ createOnigScanner, createOnigString }),
    loadGrammar: async (scope) => {
      const file = fileOf(scope);
      return file !== undefined && fs.existsSync(file) ? parseRawGrammar(fs.readFileSync(file, "utf8"), file) : null;
    },
  });
  const grammar = await registry.loadGrammar("source.llm-do-worker");
  if (grammar === null) {
    throw new Error(`${OWN} cannot be loaded`);
  }
  return grammar;
}

let grammar: Promise<IGrammar> | undefined;

export async function tokensOf(text: string): Promise<Token[]> {
  const loaded = await (grammar ??= loadGrammar());
  const found: Token[] = [];
  let stack = INITIAL;
  text.split(/\r?\n/).forEach((content, index) => {
    const { tokens, ruleStack } = loaded.tokenizeLine(content, stack);
    stack = ruleStack;
    let last: Token | undefined;
    for (const { startIndex, endIndex, scopes } of tokens) {
      const token = { line: index + 1, text: content.slice(startIndex, endIndex), scopes };
      // Rules may end where nothing is seen to end: neighbours of the same scopes are one.
      if (last !== undefined && last.scopes.join() === scopes.join()) {
        found.pop();
        token.text = last.text + token.text;
      }
      found.push((last = token));
    }
  });
  return found;
}

/** The token that has this text, or the one in which it is; `which` counts from 0. */
export function tokenOf(tokens: readonly Token[], text: string, which = 0): Token {
  const same = tokens.filter((token) => token.text === text);
  const found = (same.length > 0 ? same : tokens.filter((token) => token.text.includes(text)))[which];
  if (found === undefined) {
    throw new Error(`no token has '${text}': ${JSON.stringify(tokens.map((token) => token.text))}`);
  }
  return found;
}

export function isIn(token: Token, part: "head" | "body"): boolean {
  return token.scopes.includes(`meta.embedded.block.${part}.llm-do-worker`);
}

export function has(token: Token, prefix: string): boolean {
  return token.scopes.some((scope) => scope === prefix || scope.startsWith(`${prefix}.`));
}
