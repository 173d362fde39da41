import assert from "node:assert/strict";
import { test } from "node:test";
import { receive, subscribe } from "../src/stream.ts";
import { type Message, type Source, StreamHub } from "../src/stream_hub.ts";

class FakeSource implements Source {
  readonly acts = new Map<string, ((event: { data?: unknown }) => void)[]>();
  readyState = 0;
  closed = false;
  constructor(readonly url: string) {}
  addEventListener(name: string, act: (event: { data?: unknown }) => void): void {
    this.acts.set(name, [...(this.acts.get(name) ?? []), act]);
  }
  close(): void {
    this.closed = true;
  }
  fire(name: string, data?: unknown): void {
    for (const act of this.acts.get(name) ?? []) act({ data: JSON.stringify(data) });
  }
}

function world() {
  const sources: FakeSource[] = [];
  let timers: { at: number; act: () => void }[] = [];
  const told: [string, Message][] = [];
  const hub = new StreamHub<string>(
    {
      open: (url) => {
        const made = new FakeSource(url);
        sources.push(made);
        return made;
      },
      later: (at, act) => {
        const timer = { at, act };
        timers.push(timer);
        return () => (timers = timers.filter((one) => one !== timer));
      },
      random: () => 0.5,
    },
    (tab, message) => told.push([tab, message]),
  );
  const run = () => {
    const due = timers;
    timers = [];
    for (const one of due) one.act();
    return due.map((one) => one.at);
  };
  return { hub, sources, told, run };
}

const topics = (source: FakeSource | undefined) => new URL(source?.url ?? "", "http://x").searchParams.get("topics");

test("ten tabs share one stream with the union of their topics", () => {
  const { hub, sources, run } = world();
  for (let tab = 0; tab < 10; tab++) hub.want(`tab ${tab}`, ["bar", tab % 2 ? "events" : "executions"]);
  run();
  assert.equal(sources.length, 1);
  assert.equal(topics(sources[0]), "bar,events,executions");
});

test("the old stream is closed only when the one with the new topics is open", () => {
  const { hub, sources, run } = world();
  hub.want("a", ["bar"]);
  run();
  sources[0]?.fire("open");
  hub.want("a", ["bar", "events"]);
  run();
  assert.equal(sources[0]?.closed, false);
  sources[1]?.fire("open");
  assert.equal(sources[0]?.closed, true);
});

test("a tab gets the frames of its own topics only", () => {
  const { hub, sources, told, run } = world();
  hub.want("a", ["events"]);
  hub.want("b", ["logs:1"]);
  run();
  sources[0]?.fire("open");
  sources[0]?.fire("rows", { topic: "events", rows: [1] });
  sources[0]?.fire("log", { execution: "1", lines: [] });
  const frames = told.filter(([, message]) => message.kind === "frame");
  assert.deepEqual(frames.map(([tab, message]) => [tab, message.kind === "frame" && message.event]), [["a", "rows"], ["b", "log"]]);
});

test("a topic that is gone is fetched once by the tab that shows it, and the stream goes on", () => {
  const { hub, sources, told, run } = world();
  hub.want("a", ["bar", "logs:1"]);
  hub.want("b", ["bar"]);
  run();
  sources[0]?.fire("open");
  sources[0]?.fire("gone", { topic: "logs:1" });
  run();
  assert.equal(sources.length, 1);
  assert.equal(sources[0]?.closed, false);
  const frames = told.filter(([, message]) => message.kind === "frame");
  assert.deepEqual(frames.map(([tab, message]) => [tab, message.kind === "frame" && message.event]), [["a", "gone"]]);
  let fetched = 0;
  const end = subscribe("logs:1", { resync: () => (fetched += 1) });
  for (const [, message] of frames) receive(message);
  end();
  assert.equal(fetched, 1);
});

test("after a refused stream pages fetch anew, and the third failure waits longer", () => {
  const { hub, sources, told, run } = world();
  hub.want("a", ["bar"]);
  run();
  for (let n = 0; n < 3; n++) {
    const source = sources.at(-1) as FakeSource;
    source.readyState = 2;
    source.fire("error");
    const [pause] = run();
    assert.equal(pause, n < 2 ? 1000 : 5000);
  }
  sources.at(-1)?.fire("open");
  assert.ok(told.some(([, message]) => message.kind === "frame" && message.event === "resync"));
});

test("bye of a server that stops is no end: the stream is opened again", () => {
  const { hub, sources, run } = world();
  hub.want("a", ["bar"]);
  run();
  sources[0]?.fire("open");
  sources[0]?.fire("bye", {});
  run();
  assert.equal(sources.length, 2);
});

test("when the last tab is gone the stream is closed", () => {
  const { hub, sources, run } = world();
  hub.want("a", ["bar"]);
  run();
  sources[0]?.fire("open");
  hub.drop("a");
  run();
  assert.equal(sources[0]?.closed, true);
});

test("of a burst the newest 2,000 rows are shown, 200 a frame, and the rest is counted", async () => {
  const shown: number[][] = [];
  let left = 0;
  const frames: (() => void)[] = [];
  Object.assign(globalThis, { document: { hidden: false }, requestAnimationFrame: (act: () => void) => frames.push(act) });
  const end = subscribe("events", {
    rows: (rows) => shown.push(rows as number[]),
    skipped: (n) => {
      left += n;
    },
  });
  for (let at = 0; at < 10; at++)
    receive({
      kind: "frame", event: "rows", topic: "events",
      data: { topic: "events", rows: Array.from({ length: 500 }, (_, n) => at * 500 + n) },
    });
  for (let act = frames.shift(); act; act = frames.shift()) act();
  end();
  Reflect.deleteProperty(globalThis, "document");
  assert.equal(left, 3000);
  assert.deepEqual(shown.map((rows) => rows.length), Array.from({ length: 10 }, () => 200));
  assert.equal(shown[0]?.[0], 3000);
  assert.equal(shown.at(-1)?.at(-1), 4999);
});
