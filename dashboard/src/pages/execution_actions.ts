// What one can do with executions: run again, cancel; one by one or many as a batch.

import { action, send } from "../api.ts";
import { ask } from "../parts/dialog.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { isBad, isOpen } from "../execution_states.ts";
import { count, plural } from "../format.ts";
import type { List } from "../lists.ts";
import { go } from "../router.ts";
import type { Batch, BatchDryRun, ExecutionRow } from "../rows.ts";
import { urls } from "../urls.ts";

export type Again = "retry" | "replay";

export function canRetry(row: Pick<ExecutionRow, "state" | "resolved_by">): boolean {
  return isBad(row.state) && !row.resolved_by;
}

export function canCancel(row: Pick<ExecutionRow, "state">): boolean {
  return isOpen(row.state);
}

export function hasEnded(row: Pick<ExecutionRow, "state">): boolean {
  return !isOpen(row.state);
}

/** Runs it again and goes to the new execution. */
export async function runAgain(id: string, verb: Again, latest = false): Promise<void> {
  try {
    const made = await send<ExecutionRow>("POST", action(verb, "executions", id), { latest }, { once: true });
    toast({ text: verb === "retry" ? "Retried" : "Replayed", link: { to: urls.execution(id), text: "the old one" } });
    go(urls.execution(made.id));
  } catch (error) {
    toastError(error);
  }
}

export function askCancel(id: string, name: string, done: () => void): void {
  ask({
    title: `Cancel ${name}?`,
    body: "It ends as cancelled, and its open children with it. What it has done already stays done.",
    verb: "Cancel the execution",
    danger: true,
    run: async () => {
      await send("POST", action("cancel", "executions", id), {}, { once: true });
      toast({ text: "Cancelled" });
      done();
    },
  });
}

/** Cancels an execution and everything that it has caused. */
export function askCancelTree(id: string, name: string, done: () => void): void {
  ask({
    title: `Cancel ${name} and everything below it?`,
    body: "All that it has called, left alone or started by its events ends as cancelled. What is done stays done.",
    verb: "Cancel all of it",
    danger: true,
    run: async () => {
      await send("POST", action("cancel", "executions", id), { tree: true }, { once: true });
      toast({ text: "Cancelled, with everything below it" });
      done();
    },
  });
}

export type BatchVerb = "retry" | "replay" | "cancel";

const WORDS: Readonly<Record<BatchVerb, string>> = { retry: "Retry", replay: "Replay", cancel: "Cancel" };

/** Executions by their ids, or all of a filter as the API's batches take it. */
export interface Chosen {
  readonly ids?: readonly string[];
  readonly filter?: Readonly<Record<string, unknown>>;
}

// Filters of the address as the API's batches take them.
const LISTS = ["function", "state", "trigger", "cause"];
const SWITCHES = ["roots", "unresolved"];

function chosenOf(list: List<ExecutionRow>): Chosen {
  if (!list.allSelected.value) return { ids: [...list.selected.value] };
  const filter: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(list.options.query ?? {})) {
    if (LISTS.includes(name)) filter[name] = [value].flat();
    else if (SWITCHES.includes(name)) filter[name] = true;
    else if (name === "version") filter[name] = Number(value);
    else filter[name] = value;
  }
  return { filter };
}

/** Does it with what is selected in a list. */
export const askBatchOfList = (list: List<ExecutionRow>, verb: BatchVerb, latest = false) =>
  askBatch(chosenOf(list), verb, latest, () => list.clearSelection());

/** Counts first, then asks, then makes one batch and goes to it. */
export async function askBatch(chosen: Chosen, verb: BatchVerb, latest: boolean, made?: () => void): Promise<void> {
  const body = { action: verb, latest, ...chosen };
  let dry: BatchDryRun;
  try {
    dry = await send<BatchDryRun>("POST", "/batches", { ...body, dry_run: true });
  } catch (error) {
    toastError(error);
    return;
  }
  if (!dry.count) {
    toast({ text: `None of them can be ${{ retry: "retried", replay: "replayed", cancel: "cancelled" }[verb]}` });
    return;
  }
  const many = dry.complete ? plural(dry.count, "execution") : `more than ${count(dry.count)} executions`;
  ask({
    title: `${WORDS[verb]} ${many}?`,
    body: latest ? "They run with the active version of their function." : batchText(verb),
    verb: `${WORDS[verb]} ${many}`,
    danger: verb === "cancel",
    ...(dry.count > 100 ? { typed: verb } : {}),
    ask: { label: "Reason", placeholder: "for the audit" },
    run: async (reason) => {
      const batch = await send<Batch>("POST", "/batches", { ...body, reason }, { once: true });
      made?.();
      toast({ text: `${WORDS[verb]}: ${many}`, link: { to: urls.batch(batch.id), text: "the batch" } });
      go(urls.batch(batch.id));
    },
  });
}

function batchText(verb: BatchVerb): string {
  if (verb === "cancel") return "They end as cancelled. What they have done already stays done.";
  return "They run with the version that they had.";
}
