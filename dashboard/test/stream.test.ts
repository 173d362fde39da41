import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { loggedOut } from "../src/api.ts";
import { receive, startStream, subscribe } from "../src/stream.ts";
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

test("of more topics than the server takes, those of the tabs that spoke last are live, and the others know it", () => {
  const { hub, sources, told, run } = world();
  for (let tab = 0; tab < 40; tab++) hub.want(`tab ${tab}`, ["bar", `tree:${tab}`, `logs:${tab}`]);
  run();
  sources[0]?.fire("open");
  const asked = topics(sources[0])?.split(",") ?? [];
  assert.equal(asked.length, 60);
  assert.ok(asked.includes("tree:39") && asked.includes("bar") && !asked.includes("tree:3"));
  const status = (tab: string) => told.filter(([to, message]) => to === tab && message.kind === "status").at(-1)?.[1];
  assert.deepEqual(status("tab 39"), { kind: "status", live: true });
  assert.deepEqual(status("tab 3"), { kind: "status", live: false });
  // Of the others one is closed: the tab that speaks is live again, and fetches what it has missed.
  hub.want("tab 3", ["bar", "tree:3", "logs:3"]);
  run();
  told.length = 0;
  sources[1]?.fire("open");
  assert.ok(topics(sources[1])?.split(",").includes("tree:3"));
  assert.deepEqual(told, [["tab 3", { kind: "frame", event: "resync", topic: null, data: {} }]]);
});

test("after a refused stream a page asks who is here, and asks for nothing more once its login has ended", async () => {
  const { hub, sources, told, run } = world();
  hub.want("a", ["bar"]);
  run();
  (sources[0] as FakeSource).readyState = 2;
  sources[0]?.fire("error");
  assert.ok(told.some(([, message]) => message.kind === "refused"));
  const page = surroundings(false);
  const asked: unknown[] = [];
  const { fetch } = globalThis;
  Object.assign(globalThis, {
    fetch: async (url: unknown) => {
      asked.push(url);
      return { ok: false, status: 401, json: async () => ({ title: "nobody is logged in" }) };
    },
  });
  startStream();
  assert.deepEqual(page.sent.at(-1), { topics: ["bar"] });
  receive({ kind: "refused" });
  while (!loggedOut.value) await new Promise(setImmediate);
  assert.deepEqual(asked, ["/api/v1/me"]);
  assert.deepEqual(page.sent.at(-1), { topics: [] });
  subscribe("events", {})();
  assert.deepEqual(page.sent.at(-1), { topics: [] });
  loggedOut.value = false;
  Object.assign(globalThis, { fetch });
  page.end();
});

test("a tab that is opened in the background gives its topics up, and is live once it is seen", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const page = surroundings(true);
  startStream();
  assert.deepEqual(page.sent.at(-1), { topics: ["bar"] });
  mock.timers.tick(60_000);
  assert.deepEqual(page.sent.at(-1), { topics: [] });
  let fetched = 0;
  const end = subscribe("events", { resync: () => (fetched += 1) });
  assert.deepEqual(page.sent.at(-1), { topics: [] });
  page.show();
  assert.deepEqual(page.sent.at(-1), { topics: ["bar", "events"] });
  assert.equal(fetched, 1);
  end();
  mock.timers.reset();
  page.end();
});

// A browser with a SharedWorker, as far as a page sees it.
function surroundings(hidden: boolean) {
  const sent: unknown[] = [];
  const document = Object.assign(new EventTarget(), { hidden });
  const SharedWorker = class {
    readonly port = { onmessage: null, postMessage: (message: unknown) => sent.push(message) };
  };
  Object.assign(globalThis, { document, window: new EventTarget(), SharedWorker });
  return {
    sent,
    show: () => {
      document.hidden = false;
      document.dispatchEvent(new Event("visibilitychange"));
    },
    end: () => {
      for (const name of ["document", "window", "SharedWorker"]) Reflect.deleteProperty(globalThis, name);
    },
  };
}

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
