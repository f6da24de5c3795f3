// Builds the page: src/ becomes src/holdfast/server/page/static/, which the wheel carries.
//
//   npm ci && npm run build
//
// Names carry a digest of their content, so they may be kept for ever by a browser; index.html names them and may not.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
export const STATIC = join(here, "..", "src", "holdfast", "server", "page", "static");
const GZIP_MAX = 150 * 1024;

/** Builds once; says how large it became. */
export async function make({ minify = true } = {}) {
  const made = await build({
    entryPoints: [join(here, "src", "main.tsx")],
    bundle: true,
    minify,
    write: false,
    outdir: STATIC,
    format: "esm",
    target: ["es2022"],
    charset: "utf8",
    legalComments: "none",
    loader: { ".svg": "text" },
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  mkdirSync(STATIC, { recursive: true });
  for (const name of readdirSync(STATIC)) rmSync(join(STATIC, name));
  const names = {};
  let gzipped = 0;
  for (const file of made.outputFiles) {
    const kind = file.path.endsWith(".css") ? "css" : "js";
    const digest = createHash("sha256").update(file.contents).digest("hex").slice(0, 12);
    names[kind] = `page.${digest}.${kind}`;
    gzipped += gzipSync(file.contents).length;
    writeFileSync(join(STATIC, names[kind]), file.contents);
  }
  const icon = readFileSync(join(here, "src", "icon.svg"));
  writeFileSync(join(STATIC, "icon.svg"), icon);
  const html = readFileSync(join(here, "src", "index.html"), "utf8")
    .replace("page.js", names.js)
    .replace("page.css", names.css);
  writeFileSync(join(STATIC, "index.html"), html);
  return { names, gzipped };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { names, gzipped } = await make();
  console.log(`${names.js} ${names.css}: ${(gzipped / 1024).toFixed(1)} KiB gzip`);
  if (gzipped > GZIP_MAX) {
    console.error(`the page is larger than ${GZIP_MAX / 1024} KiB gzip`);
    process.exit(1);
  }
}
