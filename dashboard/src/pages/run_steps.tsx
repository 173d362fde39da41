// The steps of a run, and what it asked of models.

import { useState } from "preact/hooks";
import type { CallRow, Run, Step } from "../api.gen.ts";
import { route } from "../api.ts";
import { useData } from "../data.ts";
import { count, dollars, duration } from "../format.ts";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Empty, More, Name, PayloadText, RedactedChip, Show, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { isRedacted, type Page } from "../rows.ts";
import { useRows } from "../rows_here.ts";
import { isOpenRun, kindText, thenText } from "../run_states.ts";
import { urls } from "../urls.ts";
import { CALL_COLUMNS } from "./calls.tsx";

const CALLS = 100;
const HALF = 50;

function ran(of: Step): number | null {
  if (of.started_at === null || of.finished_at === null) return null;
  return (Date.parse(of.finished_at) - Date.parse(of.started_at)) / 1000;
}

/** What the step has asked for, or why it has failed. */
function Then({ of }: { of: Step }) {
  if (of.error)
    return (
      <span class="tone-bad">
        {of.error.type && (
          <>
            <Name text={of.error.type} />{" "}
          </>
        )}
        <PayloadText text={of.error.message} />
      </span>
    );
  if (of.state !== "succeeded") return null;
  return isRedacted(of.result) ? <RedactedChip needs={of.result.redacted} /> : <Name text={thenText(of.result)} />;
}

const STEP_COLUMNS: readonly Column<Step>[] = [
  { id: "state", title: "state", width: "var(--state)", cell: (row) => <State state={row.state} /> },
  { id: "number", title: "step", width: "6ch", end: true, cell: (row) => count(row.number) },
  {
    id: "given",
    title: "given",
    width: "minmax(16ch, 1fr)",
    cell: (row) => <Link to={urls.execution(row.execution_id)}>{kindText(row.kind)}</Link>,
  },
  { id: "then", title: "then", width: "minmax(12ch, 1.4fr)", priority: 2, cell: (row) => <Then of={row} /> },
  {
    id: "version",
    title: "version",
    width: "8ch",
    priority: 3,
    end: true,
    cell: (row) => <span class="dim">v{row.version}</span>,
  },
  {
    id: "attempt",
    title: "attempt",
    width: "8ch",
    priority: 3,
    end: true,
    cell: (row) => (row.attempt > 1 ? count(row.attempt) : ""),
  },
  {
    id: "cost",
    title: "cost",
    width: "11ch",
    end: true,
    cell: (row) => <span class={row.cost ? "" : "dim"}>{dollars(row.cost)}</span>,
  },
  { id: "ran", title: "ran", width: "9ch", priority: 2, end: true, cell: (row) => duration(ran(row)) },
  {
    id: "when",
    title: "when",
    width: "var(--when)",
    priority: 2,
    end: true,
    cell: (row) => <Ago time={row.created_at} />,
  },
];

/** The newest steps, between 51 and 100; the others are one step away. */
export function RunSteps({ of }: { of: Run }) {
  const [chosen, setChosen] = useState<number | null>(null);
  // It moves in halves, so that the list is another one only once in fifty steps.
  const newest = Math.max(1, Math.floor((of.step - 1) / HALF) * HALF - HALF + 1);
  const first = chosen ?? newest;
  const data = useData<Page<Step>>(route("runs", of.id, "steps"), { from_step: first, limit: 2 * HALF }, {
    every: 2,
    polled: () => isOpenRun(of.state),
  });
  const list = useRows(data, (page) => page.items, (one) => String(one.number));
  return (
    <Show of={data} rows={4}>
      {() => (
        <div class="stack">
          {of.step > 2 * HALF && (
            <div class="row-buttons">
              <Button
                disabled={first === 1}
                why="These are the first ones."
                onClick={() => setChosen(Math.max(1, first - 2 * HALF))}
              >
                Earlier steps
              </Button>
              <Button disabled={chosen === null} why="These are the newest ones." onClick={() => setChosen(null)}>
                Newest steps
              </Button>
            </div>
          )}
          <Table
            list={list}
            columns={STEP_COLUMNS}
            label="Steps"
            open={(one) => urls.execution(one.execution_id)}
            short
            empty=""
          />
        </div>
      )}
    </Show>
  );
}

export function RunCalls({ of }: { of: Run }) {
  const data = useData<Page<CallRow>>("/calls", { root: of.root_id, limit: CALLS }, {
    every: 2,
    polled: () => isOpenRun(of.state),
  });
  const list = useRows(data, (page) => page.items, (one) => one.id);
  return (
    <Show of={data} rows={4}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty title="Its tree has asked no model." />
        ) : (
          <div class="stack">
            <Table
              list={list}
              columns={CALL_COLUMNS}
              label="Model calls"
              open={(one) => urls.call(one.id)}
              short
              empty=""
            />
            <p>
              <More to={urls.calls({ root: of.root_id })}>
                {page.next ? "all calls of its tree" : "these calls as a list"}
              </More>
            </p>
          </div>
        )
      }
    </Show>
  );
}
