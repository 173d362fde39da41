// Data of a page: fetched by its address and kept in memory. On the way back it is shown at once, and fetched anew
// behind it.

import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { asProblem, get, type Options, type Problem } from "./api.ts";
import { every } from "./clock.ts";
import { useStream } from "./stream.ts";
import { type Query, queryText } from "./urls.ts";

/** What a page knows of a route's answer. `data` stays while it is fetched anew, also when that fails. */
export interface Loaded<T> {
  readonly data: T | null;
  readonly error: Problem | null;
  readonly loading: boolean;
  readonly at: number;
}

interface Entry {
  readonly state: Signal<Loaded<unknown>>;
  abort: AbortController | null;
}

/** True until the route has answered for the first time, with data or an error. */
export function isPending(of: Loaded<unknown>): boolean {
  return of.data === null && of.error === null;
}

const NOTHING: Loaded<unknown> = { data: null, error: null, loading: false, at: 0 };
const entries = new Map<string, Entry>();
const KEPT = 100;

function entryOf(key: string): Entry {
  let entry = entries.get(key);
  if (entry) entries.delete(key);
  else entry = { state: signal(NOTHING), abort: null };
  entries.set(key, entry);
  if (entries.size > KEPT) entries.delete(entries.keys().next().value as string);
  return entry;
}

type Read = (path: string, query: Query, options: Options) => Promise<unknown>;

async function load(entry: Entry, path: string, query: Query, read: Read): Promise<void> {
  entry.abort?.abort();
  const abort = new AbortController();
  entry.abort = abort;
  entry.state.value = { ...entry.state.value, loading: true };
  try {
    const data = await read(path, query, { signal: abort.signal });
    if (entry.abort === abort) entry.state.value = { data, error: null, loading: false, at: Date.now() };
  } catch (error) {
    if (entry.abort !== abort || (error instanceof DOMException && error.name === "AbortError")) return;
    entry.state.value = { ...entry.state.value, error: asProblem(error), loading: false };
  }
}

type Topics = readonly (string | null | false)[];

export interface DataOptions<T = unknown> {
  /** Topics of the stream after whose frames the data is fetched anew, at most twice a second; those that only the data
   * names are made from it. */
  readonly topics?: Topics | ((data: T) => Topics);
  /** Seconds between two fetches, for data that has no topic. */
  readonly every?: number;
  /** Says of the data whether it is fetched every so often. What ends before the stream has a topic sends no frame. */
  readonly polled?: (data: T) => boolean;
  /** How the route is read, for answers that are more than rows. */
  readonly read?: Read;
}

export interface Data<T> extends Loaded<T> {
  /** Fetches it anew. */
  reload(): void;
  /** Puts in a newer form, for example the answer of a change. */
  put(data: T): void;
}

/** Reads GET `path` below /api/v1. A null path reads nothing. */
export function useData<T>(path: string | null, query: Query = {}, options: DataOptions<T> = {}): Data<T> {
  // What is read in another way is another answer.
  const key = path === null ? "" : `${options.read ? "read " : ""}${path}${queryText(query)}`;
  const entry = useMemo(() => (path === null ? null : entryOf(key)), [key]);
  const reload = useMemo(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    const now = () => {
      if (entry && path !== null) void load(entry, path, query, options.read ?? get);
    };
    return {
      now,
      soon: () => {
        timer ??= setTimeout(() => {
          timer = null;
          now();
        }, 500);
      },
    };
  }, [key]);
  useEffect(() => {
    if (entry && !(entry.state.peek().loading && entry.abort && !entry.abort.signal.aborted)) reload.now();
  }, [key]);
  const state = (entry?.state.value ?? NOTHING) as Loaded<T>;
  const polled = options.polled === undefined || (state.data !== null && options.polled(state.data));
  const seconds = polled ? (options.every ?? 0) : 0;
  useEffect(() => {
    if (!seconds) return undefined;
    const stop = every(seconds, reload.now);
    return () => {
      stop();
      reload.soon();
    };
  }, [key, seconds]);
  const topics =
    typeof options.topics === "function" ? (state.data === null ? [] : options.topics(state.data)) : options.topics;
  useStream(path === null ? [] : (topics ?? []), {
    rows: reload.soon,
    skipped: reload.soon,
    resync: reload.now,
  });
  return {
    ...state,
    reload: reload.now,
    put: (data) => {
      if (entry) entry.state.value = { data, error: null, loading: false, at: Date.now() };
    },
  };
}

/** Forgets what was kept, for example when another person logs in. */
export function forgetData(): void {
  entries.clear();
}
