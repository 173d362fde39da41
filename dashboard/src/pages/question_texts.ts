// What a question asks, from its payload, of which texts and arguments may be redacted. Pure.

import type { Question } from "../api.gen.ts";
import { isRedacted, type Payload, type Text } from "../rows.ts";

const text = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** The text of a question. */
export function askedText(of: Question): Text {
  const asked = of.payload["question"];
  return isRedacted(asked) ? asked : (text(asked) ?? "");
}

/** The answers of which one is chosen; none for a question with a free answer. */
export function choicesOf(of: Question): readonly string[] {
  const choices = of.payload["choices"];
  return Array.isArray(choices) ? choices.filter((one): one is string => typeof one === "string") : [];
}

/** The tool that a question is about, with its version and what it may do at most. */
export function toolOf(of: Question): { tool: string | null; version: number | null; effect: string } {
  const { tool, version, effect } = of.payload;
  return {
    tool: text(tool),
    version: typeof version === "number" ? version : null,
    effect: text(effect) ?? "",
  };
}

/** What a proposed version does, and how many persons must agree: one or two. */
export function proposalOf(of: Question): { version: number | null; description: Text | null; persons: string } {
  const { version, description, needed } = of.payload;
  return {
    version: typeof version === "number" ? version : null,
    description: isRedacted(description) ? description : text(description) || null,
    persons: text(needed) ?? "one",
  };
}

/** The arguments with which a tool is to run; null for another question. */
export function argumentsOf(of: Question): Payload<Readonly<Record<string, unknown>>> | null {
  if (of.kind !== "tool") return null;
  return (of.payload["arguments"] ?? {}) as Payload<Readonly<Record<string, unknown>>>;
}
