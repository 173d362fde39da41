// An event: its envelope and data, and what every trigger decided, clause by clause.

import { useState } from "preact/hooks";
import { action, downloadPath, route, send } from "../api.ts";
import { isPending, useData } from "../data.ts";
import { bytes, instant, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { Json } from "../parts/json.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import {
  Ago, Card, Empty, Facts, Id, Mark, More, Name, PageHead, PayloadText, Pill, Show, State,
} from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { go } from "../router.ts";
import { type Clause, type Decision, type Event, isRedacted } from "../rows.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { EmitForm, emitting, startEmit } from "./events.tsx";
import { jsonText } from "../json_numbers.ts";

export function EventPage({ id }: { id: string }) {
  const event = useData<Event>(route("events", id), {}, { topics: (one) => [`tree:${one.root_id}`] });
  const row = event.data;
  const decisions = useData<readonly Decision[]>(
    route("events", id, "decisions"),
    {},
    { topics: [row && `tree:${row.root_id}`] },
  );
  const copyOf = () =>
    row &&
    startEmit({
      type: row.type,
      subject: typeof row.subject === "string" ? row.subject : "",
      data: isRedacted(row.data) ? "{}" : jsonText(row.data, 2),
    });
  const release = async () => {
    try {
      await send("POST", action("release", "events", id), {}, { once: true });
      toast({ text: "Released: it is routed again" });
      event.reload();
    } catch (error) {
      toastError(error);
    }
  };
  useKeys("Event", [
    { keys: "T", label: "Tree", run: () => row && go(urls.tree(row.root_id, { at: id })), when: row !== null },
    {
      keys: "n",
      label: "New trigger from this event",
      run: () => go(urls.newTrigger({ event: id })),
      when: can("author"),
    },
    { keys: "e", label: "Emit an edited copy", run: () => void copyOf(), when: can("operate") },
  ]);
  return (
    <>
      <PageHead
        title={row ? <Name text={row.type} /> : "Event"}
        mark={<Mark name="event" />}
        waits={isPending(event)}
        actions={
          row && (
            <>
              {row.state === "quarantined" && (
                <Button needs="operate" kind="primary" onClick={() => void release()}>
                  Release
                </Button>
              )}
              <LinkButton to={urls.tree(row.root_id, { at: id })} keys="T">
                Tree
              </LinkButton>
              <Button needs="operate" keys="e" onClick={() => void copyOf()}>
                Emit a copy
              </Button>
              <Button needs="author" keys="n" onClick={() => go(urls.newTrigger({ event: id }))}>
                New trigger
              </Button>
            </>
          )
        }
      >
        {row && (
          <>
            <PayloadText text={row.subject} />
            {row.state !== "routed" && <State state={row.state} />}
            <Ago time={row.time} />
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={event}>
          {(one) => (
            <div class="two-columns">
              <EventFacts row={one} />
              <Card title="Decisions" more={<DecisionCounts of={decisions.data} />}>
                <Show of={decisions} rows={4}>
                  {(all) => <Decisions of={all} event={one} />}
                </Show>
              </Card>
            </div>
          )}
        </Show>
      </div>
      {emitting.value && <EmitForm />}
    </>
  );
}

function EventFacts({ row }: { row: Event }) {
  return (
    <div class="stack">
      {row.problem && (
        <p class="notice tone-bad">
          <PayloadText text={row.problem} />
        </p>
      )}
      <Card title="Event">
        <Facts
          of={[
            ["Id", <Id id={row.id} />],
            ["Time", instant(row.time, false, true)],
            ["Source", <Name text={row.source} />],
            ["Subject", row.subject && <PayloadText text={row.subject} />],
            ["Depth", row.depth > 0 && row.depth],
            [
              "Caused by",
              row.cause_execution_id && (
                <More to={urls.execution(row.cause_execution_id)}>the execution that emitted it</More>
              ),
            ],
            ["Routed", row.routed_at && <Ago time={row.routed_at} />],
            ["Size", bytes(row.data_bytes)],
            ["Key", row.dedup_key && <PayloadText text={row.dedup_key} />],
          ]}
        />
      </Card>
      <Card title="Data">
        <Json value={row.data} root="data" label="Data" download={downloadPath(route("events", row.id))} />
      </Card>
      {row.extensions && !isRedacted(row.extensions) && Object.keys(row.extensions).length > 0 && (
        <Card title="Extensions">
          <Json value={row.extensions} label="Extensions" />
        </Card>
      )}
    </div>
  );
}

const kindOf = (one: Decision) =>
  one.decision === "fired" || one.decision === "suppressed" ? one.decision : "no match";

function DecisionCounts({ of }: { of: readonly Decision[] | null }) {
  if (!of) return null;
  const numbers = ["fired", "suppressed", "no match"].map((kind) => ({
    kind,
    n: of.filter((one) => kindOf(one) === kind).length,
  }));
  const some = numbers.filter(({ n }) => n > 0);
  return <span class="dim">{some.map(({ kind, n }) => `${n} ${kind}`).join(" · ")}</span>;
}

/** Every trigger's decision: fired first, then suppressed, then those that came nearest to a match. */
export function Decisions({ of, event }: { of: readonly Decision[]; event: Pick<Event, "id" | "state"> }) {
  if (!of.length)
    return (
      <Empty title={event.state === "pending" ? "It is not routed yet." : "There is no trigger yet."}>
        {event.state !== "pending" && <More to={urls.triggers()}>Triggers</More>}
      </Empty>
    );
  const order = ["fired", "suppressed", "no match"];
  const sorted = [...of].sort(
    (a, b) => order.indexOf(kindOf(a)) - order.indexOf(kindOf(b)) || a.failed_clauses - b.failed_clauses,
  );
  return (
    <ul class="decisions">
      {sorted.map((one) => (
        <DecisionLine key={one.trigger} of={one} event={event.id} open={sorted.length === 1} />
      ))}
    </ul>
  );
}

function DecisionLine({ of, event, open: atFirst }: { of: Decision; event: string; open: boolean }) {
  const [open, setOpen] = useState(atFirst);
  const kind = kindOf(of);
  const opens = of.clauses.length > 0 || of.chain.length > 0;
  return (
    <li class="decision">
      <div class="decision-head">
        <button
          type="button"
          class="fold"
          aria-expanded={open}
          aria-label={`Clauses of ${of.trigger}`}
          disabled={!opens}
          onClick={() => setOpen(!open)}
        >
          {opens ? (open ? "▾" : "▸") : ""}
        </button>
        <State state={kind} bare />
        <Link to={urls.trigger(of.trigger, { event })}>
          <Name text={of.trigger} />
        </Link>
        <span class="dim">v{of.version}</span>
        {of.state !== "enabled" && <Pill tone="hold">{of.state}</Pill>}
        <span class={kind === "suppressed" ? "tone-warn" : "dim"}>
          {kind === "fired" ? "" : <Reason of={of} />}
        </span>
        {of.execution_id && (
          <span class="decision-end">
            <More to={urls.execution(of.execution_id)}>its execution</More>
          </span>
        )}
      </div>
      {open && <Clauses of={of.clauses} />}
      {open && of.chain.length > 0 && (
        <p class="decision-chain dim">
          chain: {of.chain.map((one, at) => (
            <span key={at}>
              {at > 0 && " → "}
              <Name text={one} />
            </span>
          ))}
        </p>
      )}
    </li>
  );
}

function Reason({ of }: { of: Decision }) {
  if (kindOf(of) === "no match" && of.failed_clauses > 0)
    return <>{`${of.failed_clauses} of ${plural(of.clauses.length, "clause")} failed`}</>;
  return (
    <>
      <PayloadText text={of.reason} />
      {of.limit !== null && of.value !== null && `: limit ${of.limit}, would be ${of.value}`}
      {of.detail !== null && (
        <>
          {" "}
          <PayloadText text={of.detail} />
        </>
      )}
    </>
  );
}

/** Clauses with what they expect and what was found. */
export function Clauses({ of }: { of: readonly Clause[] }) {
  return (
    <ul class="clauses">
      {of.map((clause, at) => (
        <li key={at} class={clause.matched ? "clause" : "clause failed"}>
          <Mark
            name={clause.matched ? "succeeded" : "failed"}
            tone={clause.matched ? "ok" : "bad"}
            label={clause.matched ? "matched" : "failed"}
          />
          <code>
            <Name text={clause.path} />
          </code>
          <span class="clause-expected">
            expected <Name text={clause.expected} />
            {!clause.matched && ";"}
          </span>
          {!clause.matched && (
            <span class="clause-found">
              found {isRedacted(clause.found) ? "«redacted»" : <Name text={clause.found} />}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** An event beside its list. */
export function EventBeside({ id }: { id: string }) {
  const event = useData<Event>(route("events", id));
  const decisions = useData<readonly Decision[]>(route("events", id, "decisions"));
  return (
    <div class="beside">
      <Show of={event}>
        {(row) => (
          <>
            <h2>
              <Mark name="event" /> <Name text={row.type} /> <More to={urls.event(id)}>open</More>
            </h2>
            <p class="dim">
              <PayloadText text={row.subject} /> <Ago time={row.time} /> <Id id={id} />
            </p>
            <Json value={row.data} root="data" label="Data" />
            <h3>Decisions</h3>
            <Show of={decisions} rows={3}>
              {(all) => <Decisions of={all} event={row} />}
            </Show>
          </>
        )}
      </Show>
    </div>
  );
}
