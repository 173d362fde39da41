// JSON as people write it. Pure.

import { jsonText } from "./json_numbers.ts";

/** JSON with short objects and lists on one line, as people write patterns. */
export function compactJson(value: unknown, indent = "", width = 48): string {
  const flat = flatJson(value);
  if (value === null || typeof value !== "object" || flat.length + indent.length <= width) return flat;
  const inner = `${indent}  `;
  const entries = Array.isArray(value)
    ? value.map((one) => compactJson(one, inner, width))
    : Object.entries(value).map(([key, one]) => `${jsonText(key)}: ${compactJson(one, inner, width)}`);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return `${open}\n${entries.map((one) => inner + one).join(",\n")}\n${indent}${close}`;
}

function flatJson(value: unknown): string {
  if (value === null || typeof value !== "object") return jsonText(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(flatJson).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([key, one]) => `${jsonText(key)}: ${flatJson(one)}`)
    .join(", ")}}`;
}
