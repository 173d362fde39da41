// Checks rules of the dashboard that neither the compiler nor the browser's policy checks early enough.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

process.chdir(dirname(fileURLToPath(import.meta.url)));

const SCRIPT_RULES = [
  [/\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|srcdoc|document\.write)\b/, "HTML from text: data becomes text nodes and attributes only"],
  [/\beval\s*\(|\bnew Function\b|\bFunction\s*\(/, "text is never run"],
  [/\bhref=/, "links are drawn by <Link to={urls…}> (src/parts/link.tsx)", ["src/parts/link.tsx"]],
  [/\bas Href\b/, "hrefs are built by src/urls.ts", ["src/urls.ts"]],
  [/\b(location\.(href|assign|replace)|history\.(pushState|replaceState)|window\.open)\b/, "addresses are changed by src/router.ts", ["src/router.ts"]],
  [/\bstyle=\{\{[^}]*\b(?:width|height|top|left|right|bottom|margin\w*|padding\w*|gap|fontSize|min\w+|max\w+):\s*-?\d/, "a number in style has no unit: write the unit"],
  [/\bstyle="/, "style attributes are blocked by the policy: use a class, or style={{…}}"],
  [/\b(localStorage|sessionStorage)\b/, "storage is read and written by src/storage.ts", ["src/storage.ts"]],
  [/\bfetch\s*\(/, "requests are sent by src/api.ts", ["src/api.ts"]],
  [/\bset(?:Interval)\s*\(/, "clocks are kept by src/clock.ts", ["src/clock.ts", "src/stream.worker.ts"]],
  [/\bJSON\.(?:parse|stringify)\b/, "JSON is read and written by src/json_numbers.ts, which keeps large integers", ["src/json_numbers.ts"]],
  [/@ts-(?:ignore|nocheck|expect-error)/, "the compiler is not silenced"],
];
const STYLE_RULES = [
  [/#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|oklch|lab)a?\(/, "colours are tokens (src/styles/tokens.css)"],
  [/\b\d*\.?\d+m?s\b/, "durations are tokens"],
  [/(?<!@(?:media|container)[^{]*)\b(?!0px|1px|2px)\d*\.?\d+px\b/, "lengths are tokens"],
  [/!important/, "the order of the sheets decides"],
];

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => (entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)]));
}

const faults = [];
for (const file of filesBelow("src")) {
  if (file.endsWith(".gen.ts") || file.endsWith("tokens.css")) continue;
  const rules = /\.tsx?$/.test(file) ? SCRIPT_RULES : file.endsWith(".css") ? STYLE_RULES : [];
  readFileSync(file, "utf8")
    .split("\n")
    .forEach((line, at) => {
      for (const [pattern, why, except = []] of rules)
        if (pattern.test(line) && !except.includes(file) && !/^\s*(\/\/|\*|\/\*)/.test(line))
          faults.push(`${file}:${at + 1}: ${why}\n    ${line.trim()}`);
      if (line.length > 120 && !file.endsWith("marks.ts")) faults.push(`${file}:${at + 1}: longer than 120 characters`);
    });
}
if (faults.length) {
  console.error(faults.join("\n"));
  process.exit(1);
}
