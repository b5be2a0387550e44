import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { describe, it } from "node:test";
import { has, isIn, tokenOf, tokensOf, type Token } from "./grammar";

const SHIPPED = path.resolve("../../workers");
const WORKERS = fs.readdirSync(SHIPPED).filter((name) => name.endsWith(".worker"));

function assertIs(token: Token, part: "head" | "body", scope: string): void {
  assert.ok(isIn(token, part), `'${token.text}' of line ${token.line} is not in the ${part}: ${token.scopes.join(" ")}`);
  assert.ok(has(token, scope), `'${token.text}' of line ${token.line} is not ${scope}: ${token.scopes.join(" ")}`);
}

describe("every worker that ships", () => {
  it("is here to be read", () => assert.ok(WORKERS.length > 10));

  for (const name of WORKERS) {
    it(`${name} has a head of YAML, one line between, and a body of Markdown`, async () => {
      const text = fs.readFileSync(path.join(SHIPPED, name), "utf8");
      const lines = text.split("\n");
      const first = lines[0] === "---" ? 1 : 0;
      const separator = lines.indexOf("---", first) + 1;
      assert.ok(separator > 1);
      const tokens = await tokensOf(text);
      for (const token of tokens.filter((one) => one.text.trim() !== "")) {
        assert.equal(isIn(token, "head"), token.line < separator, `line ${token.line}: ${token.text}`);
        assert.equal(isIn(token, "body"), token.line > separator, `line ${token.line}: ${token.text}`);
        assert.equal(has(token, "text.html.markdown"), token.line > separator, `line ${token.line}: ${token.text}`);
      }
      assertIs(tokenOf(tokens, "description"), "head", "entity.name.tag.yaml");
      const marks = tokens.filter((token) => has(token, "entity.other.document.begin"));
      assert.deepEqual(marks.map((token) => token.line), first === 0 ? [separator] : [1, separator]);
    });
  }
});

const PARTS: readonly [string, string][] = [
  ["a first line ---", "---\nname: x\n---\n# Title\n"],
  ["no first line ---", "name: x\n---\n# Title\n"],
  ["blank lines before the head", "\n\n---\nname: x\n---\n# Title\n"],
  ["blanks behind the lines ---", "---  \nname: x\n--- \t\n# Title\n"],
  ["lines that end as on Windows", "---\r\nname: x\r\n---\r\n# Title\r\n"],
  ["a comment first", "# what it is for\nname: x\n---\n# Title\n"],
  ["a quotation that does not end", 'description: "never ended\nname: x\n---\n# Title\n'],
  ["a list that does not end", "name: x\nmodel: [a,\n---\n# Title\n"],
  ["a mapping that does not end", "name: x\nsandbox: {a: {b:\n---\n# Title\n"],
  ["a text of several lines that ends the head", "name: x\ndescription: |\n  one\n  two\n---\n# Title\n"],
  ["a rule in the body", "name: x\n---\n# Title\n\n---\n\nname: y\n"],
];

describe("the parts of a worker", () => {
  for (const [what, text] of PARTS) {
    it(`are told apart with ${what}`, async () => {
      const tokens = await tokensOf(text);
      assert.ok(isIn(tokenOf(tokens, "name"), "head"));
      assertIs(tokenOf(tokens, "Title"), "body", "markup.heading");
    });
  }

  it("are YAML, then Markdown", async () => {
    const tokens = await tokensOf("# why\nname: x\n---\nSay **hello**.\n");
    assertIs(tokenOf(tokens, "why"), "head", "comment.line.number-sign.yaml");
    assertIs(tokenOf(tokens, "name"), "head", "entity.name.tag.yaml");
    assertIs(tokenOf(tokens, "hello"), "body", "markup.bold");
  });

  it("are a head alone where nothing follows", async () => {
    const tokens = await tokensOf("name: x\ninstructions: |\n  # no title\n  {{ file('a') }}\n");
    assert.ok(tokens.filter((token) => token.text !== "").every((token) => isIn(token, "head")));
    assert.ok(has(tokenOf(tokens, "no title"), "string.unquoted.block.yaml"));
  });

  it("have no end: a head behind the body is body", async () => {
    const tokens = await tokensOf("name: x\n---\nfirst\n---\nname: y\n---\nlast\n");
    assert.ok(tokens.filter((token) => token.line > 2 && token.text !== "").every((token) => isIn(token, "body")));
  });

  it("are not told apart by a line that is indented", async () => {
    const tokens = await tokensOf("name: x\n ---\n# still the head\n");
    assertIs(tokenOf(tokens, " still the head"), "head", "comment");
  });
});

describe("templates in the body", () => {
  const body = (text: string): Promise<Token[]> => tokensOf(`name: x\n---\n${text}\n`);

  it("show included files", async () => {
    const tokens = await body("Follow it.\n\n{{ file('PROCEDURE.md') }}\n\n{% include 'more.md' ignore missing %}");
    assertIs(tokenOf(tokens, "file"), "body", "support.function.jinja");
    assertIs(tokenOf(tokens, "PROCEDURE.md"), "body", "string.quoted.single.jinja");
    assertIs(tokenOf(tokens, "include"), "body", "keyword.control.jinja");
    assertIs(tokenOf(tokens, "more.md"), "body", "string.quoted.single.jinja");
    assertIs(tokenOf(tokens, "ignore missing"), "body", "keyword.control.jinja");
  });

  for (const [where, text] of [
    ["a paragraph", "Say {{ word | upper }} now."],
    ["a heading", "# On {{ word | upper }}"],
    ["a list", "- one\n- two {{ word | upper }}"],
    ["a quotation", "> as {{ word | upper }}"],
    ["bold words", "It is **{{ word | upper }}**."],
    ["a block of code", "```python\nx = {{ word | upper }}\n```"],
    ["words that look like code", "Call `{{ word | upper }}`."],
  ] as const) {
    it(`are found in ${where}`, async () => {
      const tokens = await body(text);
      assertIs(tokenOf(tokens, "word"), "body", "variable.other.jinja");
      assertIs(tokenOf(tokens, "upper"), "body", "support.function.filter.jinja");
    });
  }

  it("leave other words that look like code as they are", async () => {
    const tokens = await body("Call `a{b}` and `two` and ``three {{ word }}`` and `four`.");
    assertIs(tokenOf(tokens, "a{b}"), "body", "markup.inline.raw.string.markdown");
    assertIs(tokenOf(tokens, "word"), "body", "variable.other.jinja");
    assertIs(tokenOf(tokens, "four"), "body", "markup.inline.raw.string.markdown");
    assert.ok(!has(tokenOf(tokens, " and "), "markup.inline.raw"));
  });

  it("are text between raw and endraw", async () => {
    const tokens = await body("{% raw %}{{ word }}{% endraw %} {{ other }}");
    assertIs(tokenOf(tokens, "{{ word }}"), "body", "markup.raw.jinja");
    assertIs(tokenOf(tokens, "other"), "body", "variable.other.jinja");
  });

  it("have comments, also of several lines", async () => {
    const tokens = await body("{# one\ntwo {{ word }}\nthree #} four");
    assertIs(tokenOf(tokens, "two {{ word }}"), "body", "comment.block.jinja");
    assert.ok(!has(tokenOf(tokens, "four"), "comment"));
  });

  it("are none in the head", async () => {
    const tokens = await tokensOf('description: "{{ word }}"\n---\nHello.\n');
    assert.ok(tokens.every((token) => !has(token, "meta.template.jinja")));
  });
});
