// Bundles test/*.test.ts with what they test, and runs them with node's own runner.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = join(dirname(fileURLToPath(import.meta.url)), "test");
const names = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
const out = mkdtempSync(join(tmpdir(), "holdfast-page-"));
try {
  await build({
    entryPoints: names.map((name) => join(here, name)),
    bundle: true,
    platform: "node",
    format: "esm",
    outdir: out,
    outExtension: { ".js": ".mjs" },
  });
  const files = names.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
  const ran = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
  process.exitCode = ran.status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
