// What the search finds: the page of each result, and its mark. Used by the palette and the page of the search.

import { type MarkName, MARKS } from "./parts/marks.ts";
import type { SearchResult } from "./rows.ts";
import { type Href, urlOf, urls } from "./urls.ts";

const MARK: Readonly<Record<string, MarkName>> = {
  watch: "file",
  user: "person",
  event_type: "event",
  execution: "running",
  version: "function",
};

export function markOf(kind: string): MarkName {
  return MARK[kind] ?? (kind in MARKS ? (kind as MarkName) : "nomatch");
}

const BY_ID = new Set(["execution", "event", "call"]);

/** The page of what was found, or null. Rows have their id in the address; what has a name is found by an id, too. */
export function pageOf({ kind, id, name }: SearchResult): Href | null {
  // The name of a version is function@number.
  const version = kind === "version" ? /^(.+)@(\d+)$/.exec(name) : null;
  if (version) return urls.version(version[1] as string, Number(version[2]));
  return urlOf(kind, id !== null && BY_ID.has(kind) ? id : name);
}
