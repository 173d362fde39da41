// Where the members of a JSON text are: for faults that name a JSON pointer. Pure.

import { parseJson } from "./json_numbers.ts";

interface Place {
  /** Counts from 1. */
  readonly line: number;
  /** Counts from 0. */
  readonly column: number;
}

/** The place of the deepest part of the pointer that the text has; null for a text without any. */
export function placeOf(text: string, pointer: string): Place | null {
  const wanted = pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  let at = 0;
  let best: { depth: number; at: number } | null = null;
  const blank = () => {
    while (/\s/.test(text[at] ?? "")) at++;
  };
  const string = (): string => {
    const start = at++;
    while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at++;
    try {
      return parseJson(text.slice(start, at)) as string;
    } catch {
      return "";
    }
  };
  // `depth` parts of the pointer are fitted by what is around.
  const value = (depth: number, on: boolean): void => {
    blank();
    if (on && (best === null || depth > best.depth)) best = { depth, at };
    const open = text[at];
    if (open === "{" || open === "[") {
      at++;
      for (let index = 0; at < text.length; index++) {
        blank();
        if (text[at] === "}" || text[at] === "]") {
          at++;
          return;
        }
        const keyAt = at;
        let key = String(index);
        if (open === "{") {
          if (text[at] !== '"') return void (at = text.length);
          key = string();
          blank();
          if (text[at] !== ":") return void (at = text.length);
          at++;
        }
        const fits = on && wanted[depth] === key;
        value(depth + 1, fits);
        if (fits && depth + 1 === wanted.length && open === "{") best = { depth: depth + 1, at: keyAt };
        blank();
        if (text[at] === ",") at++;
      }
    } else if (open === '"') string();
    else while (at < text.length && !/[\s,\]}]/.test(text[at] as string)) at++;
  };
  if (text.trim()) value(0, true);
  if (best === null) return null;
  const before = text.slice(0, (best as { at: number }).at).split("\n");
  return { line: before.length, column: before.at(-1)?.length ?? 0 };
}

/** The line and column that the message of JSON.parse names. */
export function placeOfProblem(text: string, problem: string): Place {
  const line = /line (\d+) column (\d+)/.exec(problem);
  if (line) return { line: Number(line[1]), column: Math.max(0, Number(line[2]) - 1) };
  const position = /position (\d+)/.exec(problem);
  const before = text.slice(0, position ? Number(position[1]) : text.length).split("\n");
  return { line: before.length, column: before.at(-1)?.length ?? 0 };
}
