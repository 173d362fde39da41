// States and causes of executions, as the engine knows them. Pure.

export const EXECUTION_STATES = [
  "queued",
  "running",
  "succeeded",
  "failed",
  "timed_out",
  "dead",
  "cancelled",
  "expired",
] as const;

/** States that ended badly. */
export const BAD_STATES = ["failed", "timed_out", "dead"] as const;

/** States that have not ended. */
export const OPEN_STATES = ["queued", "running"] as const;

/** What an execution was started by, in words. */
export const CAUSES: Readonly<Record<string, string>> = {
  manual: "from the command line",
  api: "through the API",
  trigger: "started by a trigger",
  parent: "called by an execution",
  replay: "retried or replayed",
  compensation: "undoes an execution",
  step: "a step of an agent's run",
  tool: "called as a tool by an agent",
};

export function isBad(state: string | null): boolean {
  return state !== null && (BAD_STATES as readonly string[]).includes(state);
}

export function isOpen(state: string): boolean {
  return (OPEN_STATES as readonly string[]).includes(state);
}

/** The cause in words; one that is not known is shown as it is. */
export function causeText(cause: string): string {
  return CAUSES[cause] ?? cause.replaceAll("_", " ");
}
