// The list of events, live.

import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { asProblem, type Problem, send } from "../api.ts";
import { useData } from "../data.ts";
import { useKeys } from "../keys.ts";
import { listOf } from "../lists.ts";
import { Dialog } from "../parts/dialog.tsx";
import { chosenFilters, clearFilters, type Filter, FilterBar, SINCE } from "../parts/filter_bar.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Copy, Empty, Fault, Mark, Name, PageHead, PayloadText, Split, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toast } from "../parts/toast.tsx";
import { go, place, setQuery } from "../router.ts";
import type { EventRow } from "../rows.ts";
import { can } from "../session.ts";
import { useStream } from "../stream.ts";
import { queryText, urls } from "../urls.ts";
import { EventBeside } from "./event.tsx";
import { parseJson } from "../json_numbers.ts";

const COLUMNS: readonly Column<EventRow>[] = [
  {
    id: "type",
    title: "type",
    width: "minmax(0, 1.2fr)",
    cell: (row) => (
      <Link to={urls.event(row.id)}>
        <Mark name="event" tone={row.state === "quarantined" ? "bad" : "off"} /> <Name text={row.type} />
        <span class="when-narrow dim">
          {" "}
          <PayloadText text={row.subject} />
        </span>
      </Link>
    ),
  },
  {
    id: "subject",
    title: "subject",
    width: "minmax(12ch, 1fr)",
    priority: 2,
    cell: (row) => <PayloadText text={row.subject} />,
  },
  { id: "source", title: "source", width: "minmax(12ch, 1fr)", priority: 3, cell: (row) => <Name text={row.source} /> },
  {
    id: "depth",
    title: "depth",
    width: "6ch",
    priority: 3,
    end: true,
    cell: (row) => <span class="dim">{row.depth || ""}</span>,
  },
  {
    id: "decided",
    title: "triggers",
    width: "14ch",
    priority: 2,
    cell: (row) =>
      row.state === "routed" ? (
        <>
          {row.fired > 0 && <span class="tone-ok">▸{row.fired} fired </span>}
          {row.suppressed > 0 && <span class="tone-warn">⊘{row.suppressed}</span>}
        </>
      ) : (
        <State state={row.state} />
      ),
  },
  { id: "time", title: "when", width: "var(--when)", end: true, cell: (row) => <Ago time={row.time} /> },
];

const UNDECIDED = ["pending", "quarantined"];

/** The event that the form of a new event begins with; null while the form is closed. */
export const emitting = signal<{ type: string; subject: string; data: string } | null>(null);

export function EventsPage() {
  const filters = useMemo<readonly Filter[]>(
    () => [
      {
        kind: "text",
        name: "type",
        label: "type",
        placeholder: "type",
        several: true,
        suggest: "/events/types",
      },
      { kind: "text", name: "subject", label: "subject" },
      { kind: "text", name: "source", label: "source" },
      {
        kind: "choice",
        name: "state",
        label: "state",
        several: true,
        choices: [{ value: "pending" }, { value: "routed" }, { value: "quarantined" }],
      },
      { kind: "choice", name: "since", label: "since", choices: SINCE },
      ...(["root", "until", "q"] as const)
        .filter((name) => place.value.query.has(name))
        .map((name): Filter => ({ kind: "choice", name, label: name, choices: [] })),
    ],
    [place.value.url],
  );
  const undecided = place.value.query.has("undecided");
  const chosen = chosenFilters(filters);
  const query = undecided && !chosen["state"] ? { ...chosen, state: UNDECIDED } : chosen;
  const key = queryText(query);
  const list = useMemo(
    () => listOf<EventRow>({ path: "/events", query, key: (row) => row.id, accepts: acceptsEvent(query) }),
    [key],
  );
  useStream<EventRow>(["events"], {
    rows: (rows) => list.apply(rows, list.atTop),
    skipped: (n) => (list.skipped.value += n),
    resync: () => void list.reload(list.atTop),
  });
  const beside = place.value.query.get("beside");
  useKeys("Events", [
    { keys: "n", label: "Emit an event", run: () => startEmit(), when: can("operate") },
    { keys: "f", label: "Undecided only", run: () => setQuery({ undecided: !undecided }) },
    { keys: "Escape", label: "Close the part beside", run: () => setQuery({ beside: null }), when: beside !== null },
  ]);
  return (
    <>
      <PageHead
        title="Events"
        actions={
          <Button needs="operate" keys="n" onClick={() => startEmit()}>
            Emit
          </Button>
        }
      />
      <FilterBar filters={[...filters, { kind: "switch", name: "undecided", label: "undecided" }]} saved="events" />
      <Split
        left={
          <Table
            list={list}
            columns={COLUMNS}
            label="Events"
            open={(row) => urls.event(row.id)}
            beside={(row) => setQuery({ beside: row.id })}
            besideOpen={beside !== null}
            at={beside}
            empty={
              key ? (
                <Empty title="Nothing matches the filters.">
                  <Button onClick={() => clearFilters([...filters, { kind: "switch", name: "undecided", label: "" }])}>
                    Clear all filters
                  </Button>
                </Empty>
              ) : (
                <Empty title="No event has happened yet.">
                  <p>
                    <Copy text="functory event emit demo.hello" what="command">
                      <code>functory event emit demo.hello</code>
                    </Copy>
                  </p>
                </Empty>
              )
            }
          />
        }
        right={beside && <EventBeside key={beside} id={beside} />}
      />
      {emitting.value && <EmitForm />}
    </>
  );
}

function acceptsEvent(query: Readonly<Record<string, unknown>>): (row: EventRow) => boolean {
  const oneOf = (name: string, value: unknown) => {
    const wanted = [query[name] ?? []].flat() as unknown[];
    return wanted.length === 0 || wanted.includes(value);
  };
  return (row) =>
    query["q"] === undefined &&
    query["until"] === undefined &&
    oneOf("type", row.type) &&
    oneOf("subject", row.subject) &&
    oneOf("state", row.state) &&
    oneOf("source", row.source) &&
    oneOf("root", row.root_id);
}

/** Opens the form of a new event, with the fields of another one or empty. */
export function startEmit(of: { type: string; subject: string; data: string } | null = null): void {
  emitting.value = of ?? { type: "", subject: "", data: "{}" };
}

/** The form of a new event. */
export function EmitForm() {
  const types = useData<readonly string[]>("/events/types");
  const begin = emitting.value ?? { type: "", subject: "", data: "{}" };
  const [type, setType] = useState(begin.type);
  const [subject, setSubject] = useState(begin.subject);
  const [data, setData] = useState(begin.data);
  const [fault, setFault] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const close = () => (emitting.value = null);
  const emit = async () => {
    let value: unknown;
    try {
      value = parseJson(data || "null");
    } catch (error) {
      setFault(`This is not JSON: ${error instanceof Error ? error.message : ""}`);
      return;
    }
    setFault("");
    setProblem(null);
    setBusy(true);
    try {
      const body = { type: type.trim(), data: value, ...(subject.trim() ? { subject: subject.trim() } : {}) };
      const { ids } = await send<{ ids: string[] }>("POST", "/events", body, { once: true });
      close();
      toast({ text: `Emitted ${type.trim()}` });
      if (ids[0]) go(urls.event(ids[0]));
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Emit an event" wide onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy && type.trim()) void emit();
        }}
      >
        <label class="field">
          <span>Type</span>
          <input
            value={type}
            list="known-types"
            spellcheck={false}
            placeholder="order.received"
            onInput={(event) => setType(event.currentTarget.value)}
          />
        </label>
        <datalist id="known-types">
          {types.data?.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <label class="field">
          <span>Subject</span>
          <input value={subject} spellcheck={false} onInput={(event) => setSubject(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Data, as JSON</span>
          <textarea
            rows={10}
            spellcheck={false}
            value={data}
            aria-invalid={fault !== ""}
            onInput={(event) => setData(event.currentTarget.value)}
          />
          {fault && <span class="field-fault">{fault}</span>}
        </label>
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" type="submit" needs="operate" busy={busy} disabled={!type.trim()}>
            Emit
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
