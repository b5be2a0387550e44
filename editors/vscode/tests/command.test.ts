import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { describe, it } from "node:test";
import { CommandError, INSTALL, readCommand } from "../src/command";
import { workshopOf } from "../src/workshop";

describe("the setting of the command", () => {
  it("is a program with its first arguments", () => {
    assert.deepEqual(readCommand(["uvx", "llm-do-temporal"], ["lsp"]), { program: "uvx", args: ["llm-do-temporal", "lsp"] });
  });

  it("may be an absolute path", () => {
    const program = path.resolve("/opt/it/bin/llm-do-temporal");
    assert.equal(readCommand([program], []).program, program);
  });

  for (const setting of ["./evil", "tools/evil", "../evil", "..\\evil", ".venv/bin/llm-do-temporal"]) {
    it(`is refused as '${setting}', which the open folder would decide`, () => {
      assert.throws(() => readCommand([setting], []), CommandError);
    });
  }

  for (const setting of [undefined, null, "llm-do-temporal", [], [""], ["  "], [7], [["a"]], {}, ["a", null], ["a\0b"]]) {
    it(`is refused as ${JSON.stringify(setting)}`, () => assert.throws(() => readCommand(setting, []), CommandError));
  }
});

describe("the advice on installing", () => {
  for (const page of ["../../docs/how-to/editors.md", "README.md"]) {
    it(`is that of ${page}`, () => {
      const advised = fs.readFileSync(page, "utf8").match(/^pip install '[^']+'/gm);
      assert.deepEqual(advised, [INSTALL]);
    });
  }
});

describe("the workshop of a file", () => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "workshop-"));
  const shop = path.join(root, "shop");
  const deep = path.join(shop, "workers", "notes");
  fs.mkdirSync(deep, { recursive: true });
  fs.writeFileSync(path.join(shop, "workshop.yaml"), "");
  fs.mkdirSync(path.join(root, "other"));

  it("is the nearest folder with a workshop file", () => assert.equal(workshopOf(deep, root), shop));
  it("is the folder that is open, where there is none", () => assert.equal(workshopOf(path.join(root, "other"), root), root));
  it("is never above the folder that is open", () => assert.equal(workshopOf(deep, deep), deep));
  it("is the folder that is open, for files elsewhere", () => assert.equal(workshopOf(os.tmpdir(), shop), shop));
  it("is not one with a workshop.yml, which the program does not read", () => {
    fs.writeFileSync(path.join(deep, "workshop.yml"), "");
    assert.equal(workshopOf(deep, root), shop);
  });
  it("is not mistaken for a folder whose name begins alike", () => {
    assert.equal(workshopOf(path.join(root, "shop-2"), shop), shop);
  });
});
