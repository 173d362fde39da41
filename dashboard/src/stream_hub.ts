// Holds one EventSource for many listeners, with the union of their topics. Runs in the SharedWorker, or in the page
// where there is none.

import { parseJson } from "./json_numbers.ts";

/** What a listener gets. `topic` is null for frames that concern every topic. */
export type Message =
  | { readonly kind: "frame"; readonly event: string; readonly topic: string | null; readonly data: unknown }
  | { readonly kind: "status"; readonly live: boolean }
  /** The server has answered the stream with an error. */
  | { readonly kind: "refused" }
  | { readonly kind: "ping" };

export interface Source {
  addEventListener(name: string, act: (event: { data?: unknown }) => void): void;
  close(): void;
  readonly readyState: number;
}

export interface Surroundings {
  open(url: string): Source;
  later(milliseconds: number, act: () => void): () => void;
  random(): number;
}

const EVENTS = ["rows", "log", "bar", "skipped", "resync", "gone", "bye"];
const CLOSED = 2;
/** Topics that change at once (a page opens, another one ends) make one new stream. */
const SETTLE = 60;
/** More topics are refused by the server (functory/api/stream/topics.py), and then no tab would be live. */
export const MAX_TOPICS = 60;

export class StreamHub<L> {
  // In the order in which they last said what they want.
  private readonly wanted = new Map<L, ReadonlySet<string>>();
  // Those with a topic that had no place in the stream.
  private leftOut = new Set<L>();
  // Those whose topics have a place again, in the stream that is opened next: they have a gap.
  private readonly returned = new Set<L>();
  private source: Source | null = null;
  private next: Source | null = null;
  private topics = "";
  private live = false;
  private failures = 0;
  private cancelTimer: (() => void) | null = null;

  constructor(
    private readonly around: Surroundings,
    private readonly tell: (listener: L, message: Message) => void,
    private readonly base = "/api/v1/stream",
  ) {}

  /** Sets the topics of a listener; it gets the status at once. */
  want(listener: L, topics: readonly string[]): void {
    const known = this.wanted.delete(listener);
    this.wanted.set(listener, new Set(topics));
    if (!known) this.tell(listener, { kind: "status", live: this.live });
    this.settle();
  }

  drop(listener: L): void {
    this.leftOut.delete(listener);
    this.returned.delete(listener);
    if (this.wanted.delete(listener)) this.settle();
  }

  get listeners(): readonly L[] {
    return [...this.wanted.keys()];
  }

  // The topics of the listeners that spoke last have a place first. A listener with a topic that has none is told that
  // it is not live, and fetches anew when all of its topics have one again.
  private union(): string {
    const all = new Set<string>();
    const leftOut = new Set<L>();
    for (const [listener, topics] of [...this.wanted].reverse())
      for (const topic of topics)
        if (all.has(topic) || all.size < MAX_TOPICS) all.add(topic);
        else leftOut.add(listener);
    const before = this.leftOut;
    this.leftOut = leftOut;
    for (const listener of leftOut) if (!before.has(listener)) this.tell(listener, { kind: "status", live: false });
    for (const listener of before)
      if (!leftOut.has(listener)) {
        this.tell(listener, { kind: "status", live: this.live });
        this.returned.add(listener);
      }
    return [...all].sort().join(",");
  }

  private settle(): void {
    if (this.failures) return; // the waiting attempt reads the topics when it begins
    this.cancelTimer?.();
    this.cancelTimer = this.around.later(SETTLE, () => this.change());
  }

  private change(): void {
    const topics = this.union();
    if (topics === this.topics && this.source) return;
    if (!topics) {
      this.source?.close();
      this.next?.close();
      this.source = this.next = null;
      this.topics = "";
      return;
    }
    this.open(topics, false);
  }

  // The old stream is closed when the new one is open, so that nothing is missed between them.
  private open(topics: string, again: boolean): void {
    this.next?.close();
    const source = this.around.open(`${this.base}?topics=${encodeURIComponent(topics)}`);
    this.next = source;
    this.topics = topics;
    let lost = again;
    source.addEventListener("open", () => {
      if (source !== this.next && source !== this.source) return;
      if (source === this.next) {
        this.source?.close();
        this.source = source;
        this.next = null;
      }
      this.failures = 0;
      this.setLive(true);
      // A stream that had to be opened anew has a gap: what is shown is fetched again.
      for (const listener of lost ? this.wanted.keys() : this.returned)
        this.tell(listener, { kind: "frame", event: "resync", topic: null, data: {} });
      this.returned.clear();
      lost = false;
    });
    source.addEventListener("error", () => {
      if (source !== this.next && source !== this.source) return;
      this.setLive(false);
      // The browser reconnects by itself, with the last id, unless the answer was an error.
      if (source.readyState === CLOSED) {
        this.broadcast({ kind: "refused" });
        this.retry();
      }
    });
    for (const name of EVENTS)
      source.addEventListener(name, (event) => {
        if (source !== this.source && source !== this.next) return;
        this.frame(name, event.data);
      });
  }

  private retry(): void {
    this.source?.close();
    this.next?.close();
    this.source = this.next = null;
    this.failures += 1;
    const pause = (this.failures < 3 ? 1000 : 5000) * (0.75 + this.around.random() / 2);
    this.cancelTimer?.();
    this.cancelTimer = this.around.later(pause, () => {
      const topics = this.union();
      if (topics) this.open(topics, true);
      else this.failures = 0;
    });
  }

  private frame(event: string, text: unknown): void {
    if (event === "bye") {
      this.broadcast({ kind: "frame", event, topic: null, data: {} });
      this.setLive(false);
      this.retry();
      return;
    }
    let data: unknown;
    try {
      data = parseJson(String(text));
    } catch {
      return;
    }
    const topic = topicOf(event, data);
    for (const [listener, topics] of this.wanted)
      if (topic === null || topics.has(topic)) this.tell(listener, { kind: "frame", event, topic, data });
  }

  private setLive(live: boolean): void {
    if (this.live === live) return;
    this.live = live;
    for (const listener of this.wanted.keys())
      this.tell(listener, { kind: "status", live: live && !this.leftOut.has(listener) });
  }

  private broadcast(message: Message): void {
    for (const listener of this.wanted.keys()) this.tell(listener, message);
  }
}

function topicOf(event: string, data: unknown): string | null {
  const body = (data ?? {}) as { topic?: unknown; execution?: unknown };
  if (event === "bar") return "bar";
  if (event === "log") return `logs:${String(body.execution)}`;
  return typeof body.topic === "string" ? body.topic : null;
}
