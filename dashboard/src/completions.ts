// What the editors complete: names of functions, event types, and the fields of an event that was seen. Pure.

import { jsonText } from "./json_numbers.ts";

export interface Word {
  readonly label: string;
  readonly kind: "function" | "type" | "field";
  readonly detail?: string;
}

/** The fields of an event's data as conditions write them: `data.customer.country`. */
export function fieldsOf(data: unknown, root = "data", limit = 200): Word[] {
  const words: Word[] = [];
  const visit = (value: unknown, path: string, depth: number): void => {
    if (words.length >= limit || depth > 6) return;
    if (path !== root) words.push({ label: path, kind: "field", detail: exampleOf(value) });
    if (Array.isArray(value) || value === null || typeof value !== "object") return;
    for (const [name, child] of Object.entries(value))
      if (/^[A-Za-z_]\w*$/.test(name)) visit(child, `${path}.${name}`, depth + 1);
  };
  visit(data, root, 0);
  return words;
}

function exampleOf(value: unknown): string {
  if (Array.isArray(value)) return "list";
  if (value !== null && typeof value === "object") return "object";
  const text = jsonText(value) ?? "";
  return text.length > 30 ? `${text.slice(0, 29)}…` : text;
}

/** The words that fit where the cursor is. `before` is the text up to it. */
export function wordsFor(language: string, before: string, words: readonly Word[]): readonly Word[] {
  if (language !== "json") return words;
  const key = [...before.slice(-2000).matchAll(/"([\w$]+)"\s*:/g)].at(-1)?.[1];
  // Inside a string the line so far has an odd number of quotes.
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const open = (line.replace(/\\./g, "").split('"').length - 1) % 2 === 1;
  if (!open) return [];
  if (key === "type") return words.filter((word) => word.kind === "type");
  if (key === "function" || key === "trigger_function" || key === "target_function")
    return words.filter((word) => word.kind === "function");
  // A template or a key of the pattern.
  if (/\{\{[^}]*$/.test(before)) return words.filter((word) => word.kind === "field");
  return words
    .filter((word) => word.kind === "field")
    .map((word) => ({ ...word, label: word.label.slice(word.label.lastIndexOf(".") + 1) }));
}
