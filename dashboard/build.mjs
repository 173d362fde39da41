// Builds the dashboard into functory/dashboard/static: `node build.mjs`. With --watch it builds again after each
// change; with --test it bundles the tests into .build/test and runs them.
//
// Files in assets/ carry the hash of their content in their names, so that browsers may keep them for ever. The same
// sources give the same bytes: no time, no path of the machine and no order of a folder goes into them.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, watch, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";

import * as esbuild from "esbuild";
import { minify } from "terser";

const HERE = dirname(fileURLToPath(import.meta.url));
process.chdir(HERE);
const STATIC = process.env.DASHBOARD_STATIC ?? "../functory/dashboard/static";
// Files are made beside the old ones, on the same file system, and replace them at once: a server that starts meanwhile
// finds a whole build.
const OUT = `${STATIC}-${process.pid}`;
const ASSETS = `${OUT}/assets`;

// Scripts of pages are made smaller once more: terser finds 3 % that esbuild leaves. It takes its time, so it leaves out
// the packages of the editor, which are most of the bytes, and builds of `--watch`. Names of files are made before that:
// the line at the end of each script, which is dropped with the other comments, puts terser into its hash.
const WATCHED = process.argv.includes("--watch");
const TERSER = { module: true };
const LARGEST = 300_000;
const SMALLER = { write: false, footer: { js: `//terser ${versionOf("terser")} ${WATCHED || JSON.stringify(TERSER)}` } };

const COMMON = {
  absWorkingDir: HERE,
  bundle: true,
  minify: true,
  target: ["es2022"],
  metafile: true,
  legalComments: "none",
  logLevel: "warning",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  outdir: ASSETS,
};

async function build() {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(ASSETS, { recursive: true });
  const workers = await esbuild.build({
    ...COMMON,
    ...SMALLER,
    entryPoints: ["src/stream.worker.ts", "src/layout.worker.ts"],
    format: "iife",
  });
  await write(workers);
  const worker = (source) => `/assets/${outputOf(workers, source)}`;
  const define = {
    STREAM_WORKER: JSON.stringify(worker("src/stream.worker.ts")),
    LAYOUT_WORKER: JSON.stringify(worker("src/layout.worker.ts")),
  };
  const app = await esbuild.build({
    ...COMMON,
    ...SMALLER,
    entryPoints: ["src/app.tsx"],
    format: "esm",
    splitting: true,
    define,
  });
  await write(app);
  const style = Object.entries(app.metafile.outputs).find(([name]) => name.endsWith(".css"))?.[0];
  const page = (script, parts) => readFileSync("index.html", "utf8")
    .replace("APP_STYLE", `/assets/${basename(style)}`)
    .replace("APP_SCRIPT", script)
    .replace("    APP_PARTS\n", parts.map((name) => `    <link rel="modulepreload" href="/assets/${name}">\n`).join(""));
  writeFileSync(`${OUT}/index.html`, page(`/assets/${outputOf(app, "src/app.tsx")}`, partsOf(app, "src/app.tsx")));
  await esbuild.build({
    ...COMMON,
    entryPoints: ["src/stories/parts.tsx"],
    entryNames: "[name]",
    outdir: `${OUT}/dev`,
    format: "esm",
    define,
    plugins: [editorOf(app)],
  });
  writeFileSync(`${OUT}/dev/parts.html`, page("/dev/parts.js", []));
  writeFileSync(`${OUT}/icon.svg`, readFileSync("icon.svg"));
  writeFileSync(`${OUT}/THIRD_PARTY.txt`, thirdParty([workers.metafile, app.metafile]));
  if (!WATCHED) compress();
  const old = `${OUT}-old`;
  if (existsSync(STATIC)) renameSync(STATIC, old);
  renameSync(OUT, STATIC);
  rmSync(old, { recursive: true, force: true });
}

async function write({ outputFiles }) {
  for (const { path, contents, text } of outputFiles) {
    const smaller = path.endsWith(".js") && contents.length < LARGEST && !WATCHED;
    writeFileSync(path, smaller ? (await minify(text, TERSER)).code : contents);
  }
}

// Brotli makes scripts 14 % smaller than gzip does, which the server knows by itself. Browsers take it over HTTPS and on
// this machine.
function compress() {
  for (const name of readdirSync(ASSETS)) {
    const content = readFileSync(`${ASSETS}/${name}`);
    if (content.length > 1000) writeFileSync(`${ASSETS}/${name}.br`, brotliCompressSync(content));
  }
}

// The page of the parts is a script of its own, so that it takes no byte of what others load. It loads the editor of the
// application.
function editorOf(app) {
  return {
    name: "editor",
    setup: ({ onResolve }) =>
      onResolve({ filter: /\/editor\/\w+\.ts$/ }, ({ kind, path }) =>
        kind === "dynamic-import"
          ? { path: `/assets/${outputOf(app, path.replace("..", "src"))}`, external: true }
          : undefined,
      ),
  };
}

function versionOf(name) {
  return JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
}

function outputOf(result, source) {
  const found = Object.entries(result.metafile.outputs).find(([, output]) => output.entryPoint === source);
  if (!found) throw new Error(`${source} was not built`);
  return basename(found[0]);
}

// The files that a script imports at once: a browser that is told of them fetches them beside it, not after it.
function partsOf(result, source) {
  const { imports } = Object.values(result.metafile.outputs).find((output) => output.entryPoint === source);
  return imports.filter(({ kind, external }) => kind === "import-statement" && !external).map(({ path }) => basename(path));
}

// Names, versions and licences of the packages whose code is in the bundle.
function thirdParty(metafiles) {
  const folders = new Set();
  for (const meta of metafiles)
    for (const output of Object.values(meta.outputs))
      for (const input of Object.keys(output.inputs)) {
        const match = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
        if (match) folders.add(match[1]);
      }
  const texts = [...folders].sort().map((name) => {
    const folder = `node_modules/${name}`;
    const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
    const file = readdirSync(folder).sort().find((entry) => /^licen[cs]e/i.test(entry));
    return `${name} ${version} (${license})\n\n${file ? readFileSync(`${folder}/${file}`, "utf8").trim() : ""}\n`;
  });
  return `The dashboard contains code of these packages.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

async function test() {
  const out = ".build/test";
  rmSync(out, { recursive: true, force: true });
  const entryPoints = readdirSync("test").filter((name) => /\.test\.tsx?$/.test(name)).map((name) => `test/${name}`);
  await esbuild.build({
    ...COMMON,
    entryPoints,
    minify: false,
    format: "esm",
    platform: "node",
    entryNames: "[name]",
    outExtension: { ".js": ".mjs" },
    outdir: out,
    sourcemap: "inline",
    define: { STREAM_WORKER: '"/stream.js"', LAYOUT_WORKER: '"/layout.js"' },
  });
  const files = readdirSync(out).filter((name) => name.endsWith(".test.mjs")).sort().map((name) => join(out, name));
  const done = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-reporter=spec", ...files], { stdio: "inherit" });
  process.exit(done.status ?? 1);
}

if (!existsSync("node_modules")) {
  console.error("error: the packages of the dashboard are not installed\ntry: make dashboard");
  process.exit(1);
}
if (process.argv.includes("--test")) {
  await test();
} else {
  await build();
  if (WATCHED) {
    let waiting;
    watch("src", { recursive: true }, () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => build().then(() => console.log("built"), () => {}), 50);
    });
    console.log("built; watching src/");
  }
}
