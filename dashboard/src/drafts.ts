// Unsaved changes of functions and triggers: kept while the dashboard is open, so that a tab or a look at another page
// loses nothing.

import { signal } from "@preact/signals";

const drafts = signal<ReadonlyMap<string, unknown>>(new Map());

/** The draft of a thing, such as `function:parse`; null when there is none. */
export function draftOf<T>(key: string): T | null {
  return (drafts.value.get(key) as T | undefined) ?? null;
}

/** Keeps a draft; null forgets it. */
export function keepDraft(key: string, draft: unknown): void {
  const next = new Map(drafts.value);
  if (draft === null) next.delete(key);
  else next.set(key, draft);
  drafts.value = next;
}

// A closed tab would lose them: the browser asks.
if (typeof window !== "undefined")
  window.addEventListener("beforeunload", (event) => {
    if (drafts.peek().size) event.preventDefault();
  });
