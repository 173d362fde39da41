// A pattern on one line, as people read it: `order.created, order.changed · data.amount > 500 · subject ada`.

import { jsonText, parseJson } from "./json_numbers.ts";

type Json = unknown;

const OPERATORS: Readonly<Record<string, string>> = { "=": "=", "<": "<", "<=": "≤", ">": ">", ">=": "≥" };

/** The line of a pattern's JSON; the text itself when it is not the JSON of an object (a long one was cut). */
export function patternLine(text: string): string {
  let pattern: Json;
  try {
    pattern = parseJson(text) as Json;
  } catch {
    return text;
  }
  if (!isObject(pattern) || !isValues(pattern["type"])) return text;
  const { type, ...rest } = pattern;
  return [values(type), ...clauses("", rest)].join(" · ");
}

function clauses(path: string, pattern: Readonly<Record<string, Json>>): string[] {
  return Object.entries(pattern).flatMap(([key, value]) => {
    const here = path ? `${path}.${key}` : key;
    if (isValues(value)) return [`${here} ${values(value)}`];
    return isObject(value) ? clauses(here, value) : [`${here} ${jsonText(value)}`];
  });
}

function values(alternatives: readonly Json[]): string {
  return alternatives.map(oneValue).join(", ");
}

function oneValue(value: Json): string {
  if (typeof value === "string") return value;
  const [name, operand] = isObject(value) ? (Object.entries(value)[0] ?? []) : [];
  if (name === "numeric" && Array.isArray(operand)) return numeric(operand);
  return name === undefined ? jsonText(value) : `${name} ${text(operand)}`;
}

function numeric(operand: readonly Json[]): string {
  const parts: string[] = [];
  for (let at = 0; at + 1 < operand.length; at += 2)
    parts.push(`${OPERATORS[String(operand[at])] ?? String(operand[at])} ${String(operand[at + 1])}`);
  return parts.join(" and ");
}

function text(value: Json): string {
  return typeof value === "string" ? value : jsonText(value);
}

function isValues(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function isObject(value: Json): value is Readonly<Record<string, Json>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
