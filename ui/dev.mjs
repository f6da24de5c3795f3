// Serves the page from src/ with a build for each load, and hands /api, /health and /metrics to a running server.
//
//   holdfast up app.py --port 8080
//   npm run dev -- http://127.0.0.1:8080        then open http://127.0.0.1:8081/

import { existsSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join, normalize } from "node:path";
import { STATIC, make } from "./build.mjs";

const behind = new URL(process.argv[2] ?? "http://127.0.0.1:8080");
const port = Number(process.argv[3] ?? 8081);
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
// The same as the server's, so that what it forbids is noticed here.
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

function forward(asked, answer) {
  const headers = { ...asked.headers, host: behind.host };
  if (headers.origin) headers.origin = behind.origin;
  const onward = request(
    { hostname: behind.hostname, port: behind.port, path: asked.url, method: asked.method, headers },
    (said) => {
      answer.writeHead(said.statusCode ?? 502, said.headers);
      said.pipe(answer);
    },
  );
  onward.on("error", () => {
    if (!answer.headersSent) answer.writeHead(502);
    answer.end();
  });
  answer.on("close", () => onward.destroy());
  asked.pipe(onward);
}

async function serve(asked, answer) {
  const path = new URL(asked.url ?? "/", "http://here").pathname;
  if (/^\/(api|health|metrics)(\/|$)/.test(path)) return forward(asked, answer);
  const named = path.startsWith("/static/") ? join(STATIC, normalize(path.slice("/static/".length))) : null;
  if (named === null) await make({ minify: false });
  const file = named ?? join(STATIC, "index.html");
  if (!file.startsWith(STATIC) || !existsSync(file)) return answer.writeHead(404).end();
  answer.writeHead(200, {
    "content-type": TYPES[extname(file)] ?? "application/octet-stream",
    "content-security-policy": CSP,
    "cache-control": "no-store",
  });
  answer.end(readFileSync(file));
}

createServer((asked, answer) => {
  serve(asked, answer).catch((error) => {
    console.error(error.message);
    if (!answer.headersSent) answer.writeHead(500);
    answer.end(String(error.message));
  });
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/ in front of ${behind.origin}`));
