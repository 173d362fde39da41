// States of agents' runs and of their questions, and the words for them. Pure.

import { count } from "./format.ts";

export const OPEN_RUN_STATES = [
  "running",
  "waiting_model",
  "waiting_children",
  "waiting_person",
  "waiting_proposal",
  "paused",
] as const;

export const RUN_STATES = [
  "open",
  ...OPEN_RUN_STATES,
  "succeeded",
  "failed",
  "stopped",
  "cancelled",
  "needs_human",
] as const;

export function isOpenRun(state: string): boolean {
  return (OPEN_RUN_STATES as readonly string[]).includes(state);
}

// Why a run was stopped.
const REASONS: Readonly<Record<string, string>> = {
  usd: "its money is used up",
  tokens: "its tokens are used up",
  calls: "its calls of models are used up",
  tool_calls: "its calls of tools are used up",
  children: "it has started as many runs as it may",
  seconds: "its time is over",
  steps: "it has made as many steps as it may",
  executions: "its tree has as many executions as it may",
  loop: "it repeated itself",
  no_progress: "nothing new came of its steps",
};

/** Why a run was stopped, in words; a reason that is not known is shown as it is. */
export function reasonText(reason: string): string {
  return REASONS[reason] ?? reason.replaceAll("_", " ");
}

// What a step was given.
const KINDS: Readonly<Record<string, string>> = {
  start: "the goal",
  again: "nothing new",
  model: "the answer of a model",
  tools: "results of tools",
  children: "results of functions and runs",
  answer: "the decision of a person",
  proposal: "the end of a proposal",
  checks: "results of its checks",
  problem: "an error",
};

/** What a step was given, in words. */
export function kindText(kind: string): string {
  return KINDS[kind] ?? kind.replaceAll("_", " ");
}

// What a step asks for by what it returns (functory.engine.agents.directives).
const DIRECTIVES: Readonly<Record<string, string>> = {
  again: "goes on",
  wait: "waits for a time",
  model: "asks a model",
  tools: "uses tools",
  children: "starts functions and runs",
  ask: "asks a person",
  proposal: "waits for a proposal",
  done: "is done",
  fail: "gives up",
};

/** What a step has asked for, from its result: `uses tools: find_order`. A result that is no directive is the end. */
export function thenText(result: unknown): string {
  const given = member(result, "functory.next");
  const does = member(given, "do");
  if (typeof does !== "string") return "is done";
  const words = DIRECTIVES[does] ?? does;
  const calls = member(given, "calls");
  if (!Array.isArray(calls)) return words;
  const names = calls.slice(0, 4).map((call) => String(member(call, "name") ?? ""));
  return `${words}: ${names.join(", ")}${calls.length > 4 ? ", …" : ""}`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

// What a run waits for: one row each.
const WAITS: Readonly<Record<string, readonly [string, string]>> = {
  call: ["the answer of a model", "answers of models"],
  execution: ["an execution", "executions"],
  run: ["a run", "runs"],
  approval: ["a decision of a person", "decisions of persons"],
  proposal: ["a proposal", "proposals"],
};

/** What a run waits for, in words: `an execution`, `2 executions`. */
export function waitText(kind: string, number: number): string {
  const [one, many] = WAITS[kind] ?? [kind, `${kind}s`];
  return number === 1 ? one : `${count(number)} ${many}`;
}

// What a tool may do at most, and whether a person should look closely.
const EFFECTS: Readonly<Record<string, { readonly text: string; readonly tone: string }>> = {
  none: { text: "only computes", tone: "ok" },
  reads: { text: "reads", tone: "hold" },
  acts: { text: "acts outside", tone: "warn" },
};

/** What a tool may do at most. */
export function effectOf(effect: string): { readonly text: string; readonly tone: string } {
  return EFFECTS[effect] ?? { text: effect, tone: "warn" };
}
