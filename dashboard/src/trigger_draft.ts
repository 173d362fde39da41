// The draft of a trigger: the parts that the form shows, and the definition that they make. What the form has no field
// for is kept as it is. Pure.

import { typedJson } from "./json_form.ts";
import { compactJson } from "./json_text.ts";
import { jsonText, parseJson } from "./json_numbers.ts";

export interface Draft {
  /** The pattern, or the composite, as JSON text. */
  readonly on: string;
  readonly composite: boolean;
  readonly when: string;
  readonly function: string;
  /** The template of the input as JSON text; empty: the event itself. */
  readonly input: string;
  readonly guards: Readonly<Record<string, unknown>>;
  /** Flow control as JSON text. */
  readonly flow: string;
  /** Fields without a place of their own. */
  readonly rest: Readonly<Record<string, unknown>>;
}

export interface TextFault {
  /** The field whose text is no JSON. */
  readonly field: "on" | "input" | "flow" | "text";
  readonly what: string;
}

const FORM_FIELDS = ["on", "composite", "when", "function", "input", "guards", "flow"];

const pretty = (value: unknown): string => (isBlank(value) ? "" : compactJson(value));

function isBlank(value: unknown): boolean {
  return (
    value === null ||
    value === undefined ||
    value === "" ||
    (typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0)
  );
}

/** True when the form can show the definition: in the first spelling. */
export function fitsForm(definition: Readonly<Record<string, unknown>>): boolean {
  return "function" in definition && ("on" in definition || "composite" in definition);
}

export function draftFrom(definition: Readonly<Record<string, unknown>>): Draft {
  const composite = isBlank(definition["on"]) && !isBlank(definition["composite"]);
  const guards = definition["guards"];
  return {
    on: compactJson((composite ? definition["composite"] : definition["on"]) ?? {}),
    composite,
    when: typeof definition["when"] === "string" ? definition["when"] : "",
    function: typeof definition["function"] === "string" ? definition["function"] : "",
    input: pretty(definition["input"]),
    guards: isBlank(guards) ? {} : (guards as Record<string, unknown>),
    flow: pretty(definition["flow"]),
    rest: Object.fromEntries(
      Object.entries(definition).filter(([name, value]) => !FORM_FIELDS.includes(name) && !isBlank(value)),
    ),
  };
}

/** The definition of a draft; fields whose text is no JSON are left out and named. */
export function definitionOf(draft: Draft): {
  readonly definition: Record<string, unknown>;
  readonly faults: readonly TextFault[];
} {
  const faults: TextFault[] = [];
  const read = (field: "on" | "input" | "flow"): unknown => {
    const { value, problem } = typedJson(draft[field]);
    if (problem) faults.push({ field, what: problem });
    return value;
  };
  const definition: Record<string, unknown> = { ...draft.rest };
  const on = read("on");
  definition[draft.composite ? "composite" : "on"] = on ?? {};
  if (draft.when.trim()) definition["when"] = draft.when.trim();
  definition["function"] = draft.function.trim();
  const input = read("input");
  if (input !== undefined) definition["input"] = input;
  if (!isBlank(draft.guards)) definition["guards"] = draft.guards;
  const flow = read("flow");
  if (!isBlank(flow)) definition["flow"] = flow;
  return { definition, faults };
}

/** The definition without what means nothing, for comparing. */
export function essence(definition: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(definition).filter(
      ([name, value]) => name === "on" || (!isBlank(value) && !(name === "pass" && value === "event")),
    ),
  );
}

/** True for a pattern that every event matches. */
export function matchesAll(definition: Readonly<Record<string, unknown>>): boolean {
  return isBlank(definition["on"]) && isBlank(definition["composite"]);
}

/**
 * The pattern with one more clause: the value at a path of an event, such as `data.items[0].sku`. A pattern has no
 * places in lists: it matches a list if any element matches.
 */
export function withClause(on: unknown, path: string, value: unknown): Record<string, unknown> {
  const names = [...path.replace(/\[\d+\]/g, "").matchAll(/([A-Za-z_][\w-]*)|\["((?:[^"\\]|\\.)*)"\]/g)].map(
    (found) => found[1] ?? (parseJson(`"${found[2] ?? ""}"`) as string),
  );
  const set = (pattern: unknown, at: number): unknown => {
    if (at === names.length) {
      const before = Array.isArray(pattern) ? pattern : [];
      return before.some((one) => jsonText(one) === jsonText(value)) ? before : [...before, value];
    }
    const name = names[at] as string;
    const inside = pattern && typeof pattern === "object" && !Array.isArray(pattern) ? pattern : {};
    return { ...inside, [name]: set((inside as Record<string, unknown>)[name], at + 1) };
  };
  return set(on, 0) as Record<string, unknown>;
}

/** The draft that a new trigger for an event begins with. */
export function draftForEvent(type: string): Draft {
  return draftFrom({ on: { type: [type] }, function: "" });
}
