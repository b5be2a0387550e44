import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { describe, it } from "node:test";
import manifest from "../package.json";

const { contributes } = manifest;
const read = (file: string): string => fs.readFileSync(file, "utf8");

describe("the manifest", () => {
  it("keeps the command out of the hands of a workspace", () => {
    assert.equal(contributes.configuration.properties["llm-do-temporal.command"].scope, "machine");
    assert.deepEqual(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations, ["llm-do-temporal.command"]);
    assert.equal(manifest.capabilities.untrustedWorkspaces.supported, "limited");
    assert.ok(contributes.commands.every((command) => command.enablement === "isWorkspaceTrusted"));
  });

  it("names files that are there and can be read", () => {
    const files = [
      ...contributes.languages.map((language) => language.configuration),
      ...contributes.grammars.map((grammar) => grammar.path),
      ...contributes.snippets.map((snippet) => snippet.path),
    ];
    assert.ok(files.every((file) => typeof JSON.parse(read(file)) === "object"));
  });

  it("has expressions that can be compiled", () => {
    const { wordPattern, folding } = JSON.parse(read("language-configuration.json"));
    const { indentationRules } = JSON.parse(read("head-configuration.json"));
    assert.match("api_renamer", new RegExp(`^(?:${wordPattern})$`));
    assert.match("{% if x %}", new RegExp(folding.markers.start));
    assert.match("{%- endif %}", new RegExp(folding.markers.end));
    assert.match("toolsets:", new RegExp(indentationRules.increaseIndentPattern));
    assert.doesNotMatch("name: x", new RegExp(indentationRules.increaseIndentPattern));
  });

  it("leaves the registry's address out of the lock file", () => {
    assert.doesNotMatch(read("package-lock.json"), /"resolved": "https?:/);
  });
});

describe("the package", () => {
  it("has what is needed and nothing else", () => {
    const listed = execFileSync(process.execPath, ["node_modules/@vscode/vsce/vsce", "ls", "--no-dependencies"], { encoding: "utf8" });
    assert.deepEqual(listed.trim().split("\n").sort(), [
      "LICENSE",
      "README.md",
      "dist/NOTICES.txt",
      "dist/extension.js",
      "head-configuration.json",
      "language-configuration.json",
      "package.json",
      "snippets/body.json",
      "snippets/head.json",
      "snippets/worker.json",
      "syntaxes/worker.tmLanguage.json",
    ]);
  });

  it("has the licence of everything that is bundled", () => {
    const notices = read("dist/NOTICES.txt");
    for (const name of ["vscode-languageclient", "vscode-languageserver-protocol", "vscode-jsonrpc", "semver", "minimatch"]) {
      assert.ok(notices.includes(`== ${name} `), name);
    }
  });
});
