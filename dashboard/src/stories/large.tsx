// Stories of lists, trees, pictures, texts and forms.

import { useMemo, useState } from "preact/hooks";
import { member, type Schema } from "../json_form.ts";
import { fixedList, List } from "../lists.ts";
import type { KnownLines } from "../log_lines.ts";
import { Code, type CodeProps } from "../parts/code.tsx";
import { canonical, Diff } from "../parts/diff.tsx";
import { Form, type FormProps } from "../parts/form.tsx";
import { Graph, type GraphBox } from "../parts/graph.tsx";
import { Json, ReadPayload } from "../parts/json.tsx";
import { Button } from "../parts/link.tsx";
import { Log } from "../parts/log.tsx";
import { NodeText, Outline, type OutlineProps } from "../parts/outline.tsx";
import { Ago, Empty, Name, State } from "../parts/small.tsx";
import { type Column, SelectionBar, Table, type TableProps } from "../parts/table.tsx";
import { Trace } from "../parts/trace.tsx";
import type { LogLine, OutlineNode } from "../rows.ts";
import { traceRows } from "../trace_rows.tsx";
import { urls } from "../urls.ts";
import { node } from "./rows.ts";
import { BROKEN } from "./small.tsx";
import type { Stories } from "./stories.ts";
import { at, EMOJI, HIDDEN, HOSTILE, LARGEST, LINES, LONG_WORD, PROSE, RIGHT_TO_LEFT, SCRIPT } from "./texts.ts";
import { jsonText } from "../json_numbers.ts";

const TEXTS = Object.values(HOSTILE);
const STATES = ["succeeded", "running", "failed", "queued", "timed_out", "suppressed"];
const stateOf = (n: number) => STATES[n % STATES.length] as string;
const textOf = (n: number) => TEXTS[n % TEXTS.length] as string;
const nothing = () => {};

// Tables

interface Row {
  readonly id: string;
  readonly state: string;
  readonly name: string;
  readonly about: string;
  readonly time: string;
  readonly size: number;
}

const COLUMNS: readonly Column<Row>[] = [
  { id: "state", title: "state", width: "var(--state)", cell: (row) => <State state={row.state} /> },
  { id: "name", title: "name", width: "minmax(12ch, 1fr)", cell: (row) => <Name text={row.name} /> },
  { id: "about", title: "about", width: "2fr", priority: 2, cell: (row) => <Name text={row.about} /> },
  { id: "size", title: "size", width: "10ch", priority: 3, end: true, cell: (row) => String(row.size) },
  { id: "time", title: "time", width: "var(--when)", end: true, cell: (row) => <Ago time={row.time} /> },
];

const rowsOf = (many: number, hostile = false): readonly Row[] =>
  Array.from({ length: many }, (_, n) => ({
    id: String(n),
    state: stateOf(n),
    name: hostile ? textOf(n + 1) : `parse_invoice_${n}`,
    about: hostile ? textOf(n + 2) : `order-${4700 + n}`,
    time: at(-60 * n),
    size: hostile ? LARGEST : n * n,
  }));

const keyOf = (row: Row) => row.id;

type RowsProps = { make: () => List<Row> } & Omit<TableProps<Row>, "list" | "columns" | "empty">;

function Rows({ label, make, ...rest }: RowsProps) {
  const list = useMemo(make, []);
  return (
    <Table
      list={list}
      columns={COLUMNS}
      label={label}
      empty={<Empty title="Nothing has run yet." />}
      keys={false}
      {...rest}
    />
  );
}

function Chosen() {
  const list = useMemo(() => {
    const made = fixedList(rowsOf(4), keyOf);
    made.selectRange(0, 1);
    return made;
  }, []);
  return (
    <>
      <Table
        list={list}
        columns={COLUMNS}
        label="A table with chosen rows"
        empty={null}
        keys={false}
        short
        selectable
      />
      <SelectionBar list={list}>
        <Button>Retry</Button>
        <Button kind="danger">Cancel</Button>
      </SelectionBar>
    </>
  );
}

function notComplete(change: (list: List<Row>) => void): List<Row> {
  const list = fixedList(rowsOf(4), keyOf);
  list.complete.value = false;
  change(list);
  return list;
}

function broken(rows: readonly Row[]): List<Row> {
  const list = fixedList(rows, keyOf);
  list.error.value = BROKEN;
  return list;
}

const TABLE: Stories = {
  full: () => <div class="story-room"><Rows label="A long table" make={() => fixedList(rowsOf(5000), keyOf)} /></div>,
  short: () => <Rows label="A short table" make={() => fixedList(rowsOf(4), keyOf)} short />,
  "new rows": () => (
    <div class="story-room">
      <Rows
        label="A table with new rows"
        make={() => notComplete((list) => {
          list.rows.value = rowsOf(5000);
          list.scrollTop = 3200;
          list.fresh.value = rowsOf(12, true);
          list.skipped.value = 1240;
        })}
      />
    </div>
  ),
  more: () => <Rows label="A table that goes on" make={() => notComplete(nothing)} short />,
  "older rows": () => (
    <Rows label="A table with older rows" make={() => notComplete((list) => (list.paused.value = true))} short />
  ),
  empty: () => <Rows label="An empty table" make={() => fixedList([], keyOf)} />,
  broken: () => <Rows label="A broken table" make={() => broken([])} />,
  "broken later": () => <Rows label="A table that broke" make={() => broken(rowsOf(2))} short />,
  loading: () => <Rows label="A table to come" make={() => new List<Row>({ path: "", key: keyOf })} short />,
  hostile: () => <Rows label="A hostile table" make={() => fixedList(rowsOf(TEXTS.length, true), keyOf)} short />,
};

// Forms

const ORDER: Schema = {
  type: "object",
  required: ["id", "amount"],
  properties: {
    id: { type: "integer", description: "The number of the order." },
    amount: { type: "number", minimum: 0 },
    email: { type: "string", format: "email" },
    country: { enum: ["DE", "FR", null] },
    urgent: { type: "boolean", title: "It is urgent", description: "It goes first." },
    lines: {
      type: "array",
      items: { type: "object", properties: { sku: { type: "string" }, price: { type: "number" } } },
    },
    pay: {
      oneOf: [
        { title: "by card", type: "object", properties: { by: { const: "card" }, number: { type: "string" } } },
        { title: "by invoice", type: "object", properties: { by: { const: "invoice" }, days: { type: "integer" } } },
      ],
    },
    more: {},
  },
};
const VALUE = {
  id: LARGEST,
  amount: 90.5,
  urgent: true,
  lines: [{ sku: "A-1", price: 1.5 }, { sku: "A-2", price: 3 }],
  pay: { by: "invoice", days: 14 },
  more: { any: ["thing"] },
};
const HOSTILE_FORM: Schema = {
  type: "object",
  required: TEXTS.slice(0, 2),
  properties: Object.fromEntries(TEXTS.map((text) => [text, { type: "string", description: text, title: text }])),
};

function Filled({ value: first, ...rest }: Omit<FormProps, "onChange">) {
  const [value, setValue] = useState<unknown>(first);
  return <Form value={value} onChange={setValue} {...rest} />;
}

const FORM: Stories = {
  full: () => <Filled schema={ORDER} value={VALUE} pointer="/full" label="An order" />,
  empty: () => <Filled schema={{ type: "object", properties: {} }} value={{}} pointer="/empty" label="No input" />,
  "nothing given": () => <Filled schema={ORDER} value={{}} pointer="/new" label="A new order" />,
  broken: () => (
    <Filled
      schema={ORDER}
      value={{ id: "x", amount: -1, lines: "none" }}
      pointer="/broken"
      label="A broken order"
      faults={[
        { pointer: "/broken", what: "it has faults" },
        { pointer: "/broken/id", what: "it is no integer" },
        { pointer: "/broken/amount", what: "-1 is less than the minimum of 0" },
        { pointer: "/broken/lines", what: "it is no array" },
      ]}
    />
  ),
  hostile: () => (
    <Filled
      schema={HOSTILE_FORM}
      value={Object.fromEntries(TEXTS.map((text) => [text, text]))}
      pointer="/hostile"
      label="A hostile form"
      faults={TEXTS.map((text) => ({ pointer: member("/hostile", text), what: text }))}
    />
  ),
};

// Pictures of what starts what

const BOXES: readonly GraphBox[] = [
  { id: "a", kind: "webhook", name: "shop", state: "enabled" },
  { id: "b", kind: "trigger", name: "on-order-received", state: "paused" },
  { id: "c", kind: "function", name: "parse_invoice" },
  { id: "d", kind: "event", name: "order.parsed" },
  { id: "e", kind: "function", name: "notify_owner" },
];
const EDGES = [
  { from: "a", to: "b", certain: true },
  { from: "b", to: "c", certain: true },
  { from: "c", to: "d", certain: false },
  { from: "d", to: "e", certain: true },
];
const toFunction = (box: GraphBox) => (box.kind === "function" ? urls.function(box.name) : null);

const GRAPH: Stories = {
  full: () => <Graph boxes={BOXES} edges={EDGES} cycles={[]} active="c" label="What starts what" hrefOf={toFunction} />,
  cycle: () => (
    <Graph
      boxes={BOXES}
      edges={[...EDGES, { from: "d", to: "b", certain: true }]}
      cycles={[{ ids: ["b", "c", "d"], note: "at most 8 deep" }]}
      label="What starts itself"
      zoom
      hrefOf={toFunction}
    />
  ),
  long: () => (
    <div class="story-room">
      <Graph
        boxes={Array.from({ length: 300 }, (_, n) => ({ id: String(n), kind: "function", name: `f_${n}` }))}
        edges={Array.from({ length: 299 }, (_, n) => ({ from: String(n >> 2), to: String(n + 1), certain: n % 2 > 0 }))}
        cycles={[]}
        label="A large picture"
        hrefOf={toFunction}
      />
    </div>
  ),
  hostile: () => (
    <Graph
      boxes={TEXTS.map((text, n) => ({ id: text, kind: n % 2 ? "function" : text, name: text, state: text }))}
      edges={TEXTS.slice(1).map((text, n) => ({ from: textOf(n), to: text, certain: true }))}
      cycles={[]}
      label="A hostile picture"
      hrefOf={toFunction}
    />
  ),
};

// JSON

const DATA = {
  id: LARGEST,
  amount: 90.5,
  paid: false,
  note: null,
  customer: { name: "Ada", country: "DE", address: { city: "Berlin", lines: ["a", "b"] } },
  lines: Array.from({ length: 60 }, (_, n) => ({ sku: `A-${n}`, price: n * 1.5 })),
  card: { redacted: "payload:read" },
  link: "https://example.com/orders/4711",
  none: [],
};

const JSON_VALUE: Stories = {
  full: () => <Json value={DATA} root="data" label="Data" download="/icon.svg" onPick={nothing} />,
  empty: () => <Json value={{}} label="Empty" />,
  null: () => <Json value={null} label="Null" />,
  number: () => <Json value={LARGEST} label="Number" />,
  long: () => <Json value={Array.from({ length: 5000 }, (_, n) => n)} label="List" />,
  large: () => <Json value={PROSE.repeat(30)} label="Large" download="/icon.svg" />,
  hostile: () => <Json value={Object.fromEntries([...TEXTS, PROSE].map((text) => [text, [text]]))} label="Hostile" />,
};

// Logs

const lineOf = (seq: number, text: LogLine["text"], more: Partial<LogLine> = {}): LogLine => ({
  fence: 1, level: "", offset_seconds: seq / 8, seq, stream: "stdout", text, ...more,
});
const known = (lines: readonly LogLine[], missing: readonly number[] = []): KnownLines => ({
  lines,
  joined: new Set(lines.filter((line) => !missing.includes(line.seq)).map((line) => `${line.fence}.${line.seq}`)),
  first: new Set(["1.1"]),
});

const LOG: Stories = {
  full: () => (
    <Log
      known={known([
        lineOf(1, "parsing 4711\n"),
        lineOf(2, "\u001b[33mwarning:\u001b[0m the amount has no currency\n"),
        lineOf(3, "a record of the log\n", { stream: "log", level: "WARNING" }),
        lineOf(4, `Traceback (most recent call last):\n${LINES}\nKeyError: 'amount'\n`, { stream: "stderr" }),
        lineOf(5, "an error of the log\n", { stream: "log", level: "ERROR" }),
        lineOf(6, { redacted: "payload:read" }),
      ])}
      running={false}
      onGap={nothing}
    />
  ),
  running: () => <Log known={known([lineOf(1, "one line\n")])} running onGap={nothing} />,
  empty: () => <Log known={known([])} running={false} onGap={nothing} />,
  "lines are missing": () => (
    <Log known={known([lineOf(1, "the first\n"), lineOf(900, "the last\n")], [900])} running={false} onGap={nothing} />
  ),
  long: () => {
    const many = useMemo(() => known(Array.from({ length: 20_000 }, (_, n) => lineOf(n + 1, `line ${n + 1}\n`))), []);
    return <Log known={many} running={false} onGap={nothing} />;
  },
  hostile: () => (
    <Log
      known={known([
        ...TEXTS.map((text, n) => lineOf(n + 1, text, { stream: n === 1 ? LONG_WORD : "stdout", level: textOf(n) })),
        lineOf(20, "\u001b]8;;http://attacker.invalid\u0007link\u001b]8;;\u0007 \u001b[2J\u001b[31mred"),
        lineOf(21, PROSE),
      ])}
      running={false}
      onGap={nothing}
    />
  ),
};

// Trees

const NODES: readonly OutlineNode[] = [
  node("event", null, {
    kind: "event", name: "order.received", version: null, about: "order-4711", start: at(0), created_at: at(0),
  }),
  ran("parse", "event", 0.2, 1.4, { about: "order-4711" }),
  ran("failed", "event", 0.3, 12, { state: "failed", error_type: "KeyError", attempt: 3, version: 47 }),
  ran("child", "parse", 1.5, 0.1, { about: { redacted: "payload:read" }, left_out: 12, children: 12, worst: "dead" }),
  ran("running", "parse", 2, null, { state: "running" }),
  ran("queued", "parse", 2, null, { state: "queued", start: null, queued_seconds: null }),
  ran("cancelled", "event", 4, 0.01, { state: "cancelled", cancelled_by: "ada" }),
  node("stopped", "event", {
    kind: "suppressed", name: "big-orders", version: null, reason: "rate limit", start: at(5),
  }),
  node("joined", "event", { kind: "joined", name: "nightly", version: null, reason: "same key", start: at(6) }),
  node("group", "event", {
    kind: "group", name: "resize", count: 4711, min_seconds: 0.01, median_seconds: 0.4, max_seconds: 9, start: at(7),
  }),
];

function ran(
  id: string,
  parent: string | null,
  start: number,
  seconds: number | null,
  more: Partial<OutlineNode> = {},
): OutlineNode {
  const end = seconds === null ? null : at(start + seconds);
  return node(id, parent, {
    created_at: at(start), start: at(start + 0.05), queued_seconds: 0.05, run_seconds: seconds, finished_at: end,
    ...more,
  });
}

const HOSTILE_NODES = TEXTS.map((text, n) =>
  ran(`h${n}`, n ? `h${n - 1}` : null, n * 3600, 2 + n, {
    name: text, about: text, state: text, error_type: text, cancelled_by: text, reason: text,
    kind: n === 1 ? "event" : n === 2 ? "suppressed" : "execution", version: LARGEST,
  }),
);
const CHAIN = Array.from({ length: 3000 }, (_, n) =>
  ran(`c${n}`, n ? `c${n - 1}` : null, n, 1, { state: stateOf(n % 4 === 2 ? 2 : 0) }),
);

function Lines(props: Omit<OutlineProps, "keys">) {
  const [selected, setSelected] = useState<string | null>("failed");
  return (
    <div class="story-room">
      <Outline selected={selected} onSelect={(one) => setSelected(one.id)} onMore={nothing} keys={false} {...props} />
    </div>
  );
}

const OUTLINE: Stories = {
  full: () => <Lines nodes={NODES} label="A tree" />,
  "failures only": () => <Lines nodes={NODES} label="Failures of a tree" failuresOnly />,
  empty: () => <Outline nodes={[]} label="An empty tree" keys={false} />,
  long: () => <Lines nodes={CHAIN} label="A long chain" />,
  hostile: () => <Lines nodes={HOSTILE_NODES} label="A hostile tree" />,
};

function Waterfall({ label, nodes }: { label: string; nodes: readonly OutlineNode[] }) {
  const rows = useMemo(() => traceRows(nodes, "", [], []), []);
  const [selected, setSelected] = useState<string | null>(rows[1]?.id ?? null);
  return (
    <div class="story-room">
      <Trace
        rows={rows}
        label={label}
        selected={selected}
        onSelect={(row) => setSelected(row.id)}
        now={Date.parse(at(20))}
        keys={false}
      />
    </div>
  );
}

const TRACE: Stories = {
  full: () => <Waterfall nodes={NODES} label="A waterfall" />,
  empty: () => <Waterfall nodes={[]} label="An empty waterfall" />,
  long: () => <Waterfall nodes={CHAIN} label="A long waterfall" />,
  hostile: () => <Waterfall nodes={HOSTILE_NODES} label="A hostile waterfall" />,
};

// Texts of programs

const SOURCE = `import functory\n\n\ndef parse_invoice(raw: dict) -> dict:\n    """Reads an invoice."""
    return {"id": raw["id"], "total": raw["amount"] * 1.19}\n`;
const HOSTILE_SOURCE = TEXTS.map((text) => `print(${jsonText(text)})  # ${text}`).join("\n");

function Written({ value: first, ...rest }: Omit<CodeProps, "onChange">) {
  const [value, setValue] = useState(first);
  return <Code value={value} onChange={setValue} {...rest} />;
}

const CODE: Stories = {
  full: () => <Written value={SOURCE} language="python" label="A source" />,
  "read only": () => <Code value={SOURCE} language="python" label="A source to read" />,
  empty: () => <Written value="" language="cel" label="A condition" size="small" hint="event.data.amount > 500" />,
  json: () => <Written value={canonical(DATA.customer)} language="json" label="A pattern" size="small" />,
  broken: () => (
    <Written
      value={SOURCE}
      language="python"
      label="A broken source"
      diagnostics={[
        { line: 1, severity: "warning", message: "it is not used" },
        { line: 6, column: 12, severity: "error", message: LONG_WORD },
      ]}
    />
  ),
  long: () => <Written value={SOURCE.repeat(20)} language="python" label="A long source" />,
  hostile: () => <Written value={HOSTILE_SOURCE} language="python" label="A hostile source" />,
};

const DIFF: Stories = {
  full: () => (
    <Diff before={SOURCE} after={SOURCE.replace("1.19", "rate(raw)")} language="python" labels={["v6", "v7"]} />
  ),
  "the same": () => <Diff before={SOURCE} after={SOURCE} language="python" labels={["v7", "v8"]} />,
  empty: () => <Diff before="" after={SOURCE} language="python" labels={["nothing", "v1"]} />,
  hostile: () => (
    <Diff
      before={HOSTILE_SOURCE}
      after={HOSTILE_SOURCE.replace(EMOJI, HIDDEN)}
      language="python"
      labels={[SCRIPT, RIGHT_TO_LEFT]}
    />
  ),
};

export const LARGE: Readonly<Record<string, Stories>> = {
  Table: TABLE,
  SelectionBar: { full: Chosen },
  Outline: OUTLINE,
  NodeText: { full: () => <>{NODES.map((one) => <p key={one.id}><NodeText node={one} /></p>)}</> },
  Trace: TRACE,
  Graph: GRAPH,
  Json: JSON_VALUE,
  ReadPayload: {
    full: () => <ReadPayload of={{ large: false, value: DATA.customer }} label="Payload" />,
    large: () => <ReadPayload of={{ large: true, beginning: PROSE, size: 48_000_000 }} download="/icon.svg" />,
  },
  Log: LOG,
  Code: CODE,
  Diff: DIFF,
  Form: FORM,
};
