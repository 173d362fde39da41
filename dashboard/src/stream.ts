// The page's side of the stream: topics in, frames out, applied in the browser's frames.

import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get, loggedOut, online } from "./api.ts";
import type { Bar, LogLine } from "./rows.ts";
import { type Message, StreamHub } from "./stream_hub.ts";
import { streamWorker } from "./workers.ts";

export interface Handlers<T = unknown> {
  /** Rows that were added or have changed. Applying one twice is harmless. */
  rows?(rows: readonly T[]): void;
  log?(lines: readonly LogLine[]): void;
  /** So many rows were left out because they came too fast. */
  skipped?(n: number): void;
  /** There is a gap: fetch what is shown anew. */
  resync?(): void;
}

/** The numbers of the top bar. */
export const bar = signal<Bar | null>(null);
/** True while the stream is open. */
export const live = signal(false);
/** When the stream was last open, in milliseconds since 1970. */
export const liveAt = signal(Date.now());
/** Switched by `l`: pages keep what they show while it is false. */
export const following = signal(true);

/** Rows that are applied in one frame of the browser at most; the rest waits for the next one. */
const ROWS_A_FRAME = 200;
/** Rows that wait at most. What is beyond is counted and not shown, oldest first. */
const MAX_WAITING = 2000;
const HIDDEN_AFTER = 60_000;

const listeners = new Map<string, Set<Handlers>>();
let sendTopics: (topics: readonly string[]) => void = () => {};
let waiting: { topic: string; rows: unknown[] }[] = [];
let scheduled = false;
let asleep = false;

function topics(): string[] {
  return asleep || loggedOut.value ? [] : ["bar", ...[...listeners.keys()].sort()];
}

/** Listens to a topic; returns what ends it. Exported for tests. */
export function subscribe(topic: string, handlers: Handlers): () => void {
  let set = listeners.get(topic);
  if (!set) listeners.set(topic, (set = new Set()));
  set.add(handlers);
  sendTopics(topics());
  return () => {
    set.delete(handlers);
    if (set.size === 0) {
      listeners.delete(topic);
      sendTopics(topics());
    }
  };
}

function flush(): void {
  scheduled = false;
  let left = ROWS_A_FRAME;
  while (left > 0 && waiting.length) {
    const first = waiting[0] as { topic: string; rows: unknown[] };
    const rows = first.rows.splice(0, left);
    left -= rows.length;
    if (!first.rows.length) waiting.shift();
    for (const handlers of listeners.get(first.topic) ?? []) handlers.rows?.(rows);
  }
  if (waiting.length) schedule();
}

/** Leaves out the oldest rows when too many wait, and says how many. */
function bound(): void {
  let over = waiting.reduce((sum, entry) => sum + entry.rows.length, 0) - MAX_WAITING;
  while (over > 0) {
    const first = waiting[0] as { topic: string; rows: unknown[] };
    const n = Math.min(over, first.rows.length);
    first.rows.splice(0, n);
    over -= n;
    if (!first.rows.length) waiting.shift();
    for (const handlers of listeners.get(first.topic) ?? []) handlers.skipped?.(n);
  }
}

function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  // A hidden page has no frames.
  if (document.hidden) setTimeout(flush, 0);
  else requestAnimationFrame(flush);
}

function askWhoIsHere(): void {
  void get("/me").catch(() => {});
}

/** Applies a message of the hub. Exported for tests. */
export function receive(message: Message): void {
  if (message.kind === "status") {
    if (live.value && !message.live) liveAt.value = Date.now();
    live.value = message.live;
    // What carries the stream carries requests.
    if (message.live) online.value = true;
    return;
  }
  // The login may have ended: a request tells, also on a page that would make none for a while.
  if (message.kind === "refused") askWhoIsHere();
  if (message.kind !== "frame") return;
  const { event, topic } = message;
  const data = message.data as { rows?: unknown[]; lines?: LogLine[]; n?: number };
  if (event === "bar") bar.value = message.data as Bar;
  // The server stops, or the login has ended.
  else if (event === "bye") askWhoIsHere();
  else if (event === "rows" && topic && data.rows) {
    const last = waiting.at(-1);
    if (last?.topic === topic) last.rows.push(...data.rows);
    else waiting.push({ topic, rows: [...data.rows] });
    bound();
    schedule();
  } else if (event === "log" && topic && data.lines) {
    for (const handlers of listeners.get(topic) ?? []) handlers.log?.(data.lines);
  } else if (event === "skipped" && topic) {
    for (const handlers of listeners.get(topic) ?? []) handlers.skipped?.(data.n ?? 0);
    // What is gone is fetched, too: the answer says that it was deleted, or that it may not be seen any more.
  } else if (event === "resync" || event === "gone") {
    if (topic) waiting = waiting.filter((entry) => entry.topic !== topic);
    else waiting = [];
    for (const [name, set] of listeners)
      if (topic === null || topic === name) for (const handlers of set) handlers.resync?.();
  }
}

export function startStream(): void {
  const worker = streamWorker();
  if (worker) {
    const { port } = worker;
    port.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.kind === "ping") port.postMessage({});
      else receive(data);
    };
    sendTopics = (wanted) => port.postMessage({ topics: wanted });
    // A page that the browser keeps for "back" comes alive again with `pageshow`.
    window.addEventListener("pagehide", () => port.postMessage({ bye: true }));
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) sendTopics(topics());
    });
  } else {
    const hub = new StreamHub<string>(
      {
        open: (url) => new EventSource(url),
        later: (milliseconds, act) => {
          const timer = setTimeout(act, milliseconds);
          return () => clearTimeout(timer);
        },
        random: Math.random,
      },
      (_, message) => receive(message),
    );
    sendTopics = (wanted) => hub.want("page", wanted);
  }
  sleepWhileHidden(worker ? HIDDEN_AFTER : 0);
  // A page of an ended login asks for nothing more: each try would be refused, and be in the audit.
  loggedOut.subscribe(() => sendTopics(topics()));
}

/** Gives the topics up while nobody sees the page, after so many milliseconds. */
function sleepWhileHidden(after: number): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden)
      timer = setTimeout(() => {
        asleep = true;
        sendTopics(topics());
      }, after);
    else {
      const missed = asleep;
      asleep = false;
      // Also without a gap: of too many tabs, those that were seen last are live.
      sendTopics(topics());
      if (missed) receive({ kind: "frame", event: "resync", topic: null, data: {} });
    }
  };
  document.addEventListener("visibilitychange", look);
  // A tab that is opened in the background is hidden from its first moment, and gets no event that says so.
  if (document.hidden) look();
}

/** Listens to topics while the component is shown and the live switch is on. Null topics are left out. */
export function useStream<T>(wanted: readonly (string | null | false)[], handlers: Handlers<T>): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  const names = wanted.filter((topic): topic is string => Boolean(topic)).join(",");
  useEffect(
    () =>
      effect(() => {
        if (!following.value || !names) return undefined;
        const forward: Handlers = {
          rows: (rows) => latest.current.rows?.(rows as readonly T[]),
          log: (lines) => latest.current.log?.(lines),
          skipped: (n) => latest.current.skipped?.(n),
          resync: () => latest.current.resync?.(),
        };
        const ends = names.split(",").map((topic) => subscribe(topic, forward));
        return () => ends.forEach((end) => end());
      }),
    [names],
  );
}

/** Switches the live updates. What came meanwhile is fetched when they are on again. */
export function toggleFollowing(): boolean {
  following.value = !following.value;
  if (following.value) receive({ kind: "frame", event: "resync", topic: null, data: {} });
  return following.value;
}
