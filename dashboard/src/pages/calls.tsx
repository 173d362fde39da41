// Calls of language models: what was asked, by whom, and what it cost.

import type { CallRow } from "../api.gen.ts";
import { count, dollars } from "../format.ts";
import { useKeys } from "../keys.ts";
import { useFreshList } from "../lists.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar, SINCE } from "../parts/filter_bar.tsx";
import { Button } from "../parts/link.tsx";
import { Ago, Empty, Mark, Name, PageHead, PayloadText, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { place, setQuery } from "../router.ts";
import { urls } from "../urls.ts";

const STATES = ["queued", "sent", "succeeded", "failed", "unknown", "refused", "cancelled"];

/** What a call has cost. That of a lost answer is the most that it can have cost. */
export function CallCost({ of }: { of: CallRow }) {
  if (of.state === "unknown") return <span title="At most: the answer was lost.">≤ {dollars(of.cost)}</span>;
  return <span class={of.cost ? "" : "dim"}>{dollars(of.cost)}</span>;
}

/** The model that was asked, and the one that it was asked for. */
export function CallModel({ of }: { of: CallRow }) {
  return (
    <>
      <Name text={of.asked} />
      {of.asked !== of.model && (
        <span class="dim">
          {" "}
          for <Name text={of.model} />
        </span>
      )}
    </>
  );
}

export const CALL_COLUMNS: readonly Column<CallRow>[] = [
  {
    id: "state",
    title: "state",
    width: "minmax(13ch, .5fr)",
    cell: (row) => <State state={row.state} />,
  },
  { id: "model", title: "model", width: "minmax(12ch, .8fr)", cell: (row) => <CallModel of={row} /> },
  {
    id: "function",
    title: "function",
    width: "minmax(12ch, .8fr)",
    priority: 2,
    cell: (row) => (row.function ? <Name text={row.function} /> : <span class="dim">a person</span>),
  },
  {
    id: "for",
    title: "for",
    width: "minmax(8ch, .5fr)",
    priority: 3,
    cell: (row) => <Name text={[row.agent, row.user_name].filter(Boolean).join(", ")} />,
  },
  {
    id: "error",
    title: "error",
    width: "minmax(12ch, 1fr)",
    priority: 3,
    cell: (row) => (
      <span class="tone-bad">
        <PayloadText text={row.error?.message} />
      </span>
    ),
  },
  {
    id: "tries",
    title: "tries",
    width: "6ch",
    priority: 3,
    end: true,
    cell: (row) => <span class={row.tries > 1 ? "tone-warn" : "dim"}>{count(row.tries)}</span>,
  },
  {
    id: "tokens",
    title: "tokens",
    width: "15ch",
    priority: 2,
    end: true,
    cell: (row) =>
      row.ended_at && (
        <span title="asked + answered">
          {count(row.tokens_in)} + {count(row.tokens_out)}
        </span>
      ),
  },
  { id: "cost", title: "cost", width: "11ch", end: true, cell: (row) => <CallCost of={row} /> },
  { id: "asked", title: "asked", width: "var(--when)", end: true, cell: (row) => <Ago time={row.created_at} /> },
];

function useFilters(): readonly Filter[] {
  const query = place.value.query;
  const chosen = (name: string, label: string): readonly Filter[] =>
    query.has(name) ? [{ kind: "choice", name, label, choices: [] }] : [];
  return [
    { kind: "text", name: "model", label: "model" },
    { kind: "choice", name: "state", label: "state", choices: STATES.map((value) => ({ value })) },
    { kind: "text", name: "function", label: "function", suggest: "/functions" },
    { kind: "text", name: "agent", label: "agent" },
    { kind: "text", name: "user", label: "user" },
    { kind: "choice", name: "since", label: "since", choices: SINCE },
    ...chosen("root", "tree"),
    ...chosen("execution", "execution"),
  ];
}

export function CallsPage() {
  const filters = useFilters();
  const query = chosenFilters(filters);
  const list = useFreshList<CallRow>({ path: "/calls", query, key: (row) => row.id });
  useKeys("Model calls", [{ keys: "f", label: "Failed only", run: () => setQuery({ state: "failed" }) }]);
  return (
    <>
      <PageHead
        title="Model calls"
        mark={<Mark name="call" />}
        actions={<Button onClick={() => void list.reload()}>Load again</Button>}
      />
      <FilterBar filters={filters} saved="calls" />
      <Table
        list={list}
        columns={CALL_COLUMNS}
        label="Model calls"
        open={(row) => urls.call(row.id)}
        empty={
          Object.keys(query).length ? (
            <Empty title="Nothing matches the filters.">
              <Button onClick={() => clearFilters(filters)}>Remove the filters</Button>
            </Empty>
          ) : (
            <Empty title="No model was asked yet.">
              <p>What functions ask language models appears here with its cost.</p>
            </Empty>
          )
        }
      />
    </>
  );
}
