/** Bundles the extension into dist/, and with --tests its tests into out/. Asks no network. */

import { build } from "esbuild";
import * as fs from "node:fs";
import * as path from "node:path";

const shared = { bundle: true, platform: "node", target: "node20", logLevel: "warning" };

async function extension() {
  const { metafile } = await build({
    ...shared,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    format: "cjs",
    external: ["vscode"],
    minify: true,
    metafile: true,
  });
  fs.writeFileSync("dist/NOTICES.txt", notices(Object.keys(metafile.inputs)));
}

/** The licences of the packages that are in the bundle. */
function notices(inputs) {
  const packages = inputs.map((input) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]).filter(Boolean);
  return [...new Set(packages)].sort().map(notice).join("\n\n");
}

function notice(folder) {
  const { name, version, license } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  const file = fs.readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) {
    throw new Error(`${folder} has no licence file: what is bundled must come with its licence`);
  }
  return `== ${name} ${version} (${license})\n\n${fs.readFileSync(path.join(folder, file), "utf8")}`;
}

async function tests() {
  fs.rmSync("out", { recursive: true, force: true });
  const entryPoints = fs.readdirSync("tests").filter((name) => name.endsWith(".test.ts")).map((name) => `tests/${name}`);
  await build({ ...shared, entryPoints, outdir: "out/tests", format: "cjs", packages: "external" });
}

await extension();
if (process.argv.includes("--tests")) {
  await tests();
}
