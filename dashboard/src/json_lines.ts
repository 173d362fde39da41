// JSON values as lines of a tree. Pure.

import { isRedacted } from "./rows.ts";
import { jsonText, parseJson } from "./json_numbers.ts";

export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null" | "redacted";

export interface JsonLine {
  /** Unique in the tree: the keys from the root. */
  readonly id: string;
  /** As a pattern would write it: `data.items[0].amount`. */
  readonly path: string;
  readonly depth: number;
  readonly key: string | number | null;
  readonly kind: JsonKind;
  readonly value: unknown;
  /** Number of entries of an object or array. */
  readonly size: number;
  readonly open: boolean;
}

export const MAX_BYTES = 256_000;
export const MAX_NODES = 20_000;
export const MAX_LINES = 200;
export const PREVIEW = 16_000;

export function kindOf(value: unknown): JsonKind {
  if (value === null || value === undefined) return "null";
  if (isRedacted(value) && Object.keys(value).length === 1) return "redacted";
  if (Array.isArray(value)) return "array";
  const kind = typeof value;
  if (kind === "bigint") return "number";
  return kind === "object" || kind === "string" || kind === "number" || kind === "boolean" ? kind : "string";
}

/** Number of nodes, counted up to `limit`. */
export function countNodes(value: unknown, limit = MAX_NODES): number {
  let count = 0;
  const open: unknown[] = [value];
  while (open.length && count <= limit) {
    const one = open.pop();
    count += 1;
    if (!one || typeof one !== "object") continue;
    const children = Object.values(one);
    if (count + open.length + children.length > limit) return limit + 1;
    for (const child of children) open.push(child);
  }
  return count;
}

/** The text of a payload: its value, or only its beginning when it is too large for a tree. */
export type ReadJson =
  | { readonly large: false; readonly value: unknown }
  | { readonly large: true; readonly beginning: string; readonly size: number };

/** Reads the text of a payload. Throws a SyntaxError when it is no JSON. */
export function readJson(text: string): ReadJson {
  if (text.length <= MAX_BYTES) {
    const value: unknown = parseJson(text);
    if (countNodes(value) <= MAX_NODES) return { large: false, value };
  }
  return { large: true, beginning: text.slice(0, PREVIEW), size: text.length };
}

/** The path of a key below `path`, as patterns write it. */
export function pathOf(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`;
  if (/^[A-Za-z_][\w-]*$/.test(key)) return path ? `${path}.${key}` : key;
  return `${path}[${jsonText(key)}]`;
}

/**
 * The lines to show: objects whose id is in `toggled` are the other way round than their depth says. At most `limit`.
 */
export function jsonLines(
  value: unknown,
  toggled: ReadonlySet<string>,
  root = "",
  openDepth = 2,
  limit = MAX_LINES,
): { readonly lines: readonly JsonLine[]; readonly more: boolean } {
  const lines: JsonLine[] = [];
  let more = false;
  const visit = (one: unknown, id: string, path: string, depth: number, key: string | number | null): void => {
    if (lines.length >= limit) {
      more = true;
      return;
    }
    const kind = kindOf(one);
    const entries = kind === "object" || kind === "array" ? Object.entries(one as object) : [];
    const small = entries.length <= 50;
    const open = entries.length > 0 && ((depth < openDepth && small) || depth === 0) !== toggled.has(id);
    lines.push({ id, path, depth, key, kind, value: one, size: entries.length, open });
    if (!open) return;
    for (const [name, child] of entries) {
      const step = kind === "array" ? Number(name) : name;
      visit(child, `${id}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, pathOf(path, step), depth + 1, step);
      if (more) return;
    }
  };
  visit(value, "", root, 0, null);
  // The braces around everything are no line.
  const [first, ...rest] = lines;
  if (first?.open) return { lines: rest.map((line) => ({ ...line, depth: line.depth - 1 })), more };
  return { lines, more };
}
