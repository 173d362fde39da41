// Runs of agents: how far they are, what they have spent, and which of them wait.

import type { RunRow } from "../api.gen.ts";
import { count, dollars } from "../format.ts";
import { useKeys } from "../keys.ts";
import { useFreshList, useRenewed } from "../lists.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar, SINCE } from "../parts/filter_bar.tsx";
import { Button } from "../parts/link.tsx";
import { Ago, Copy, Empty, Mark, Name, PageHead, PayloadText, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { place, setQuery } from "../router.ts";
import { reasonText, RUN_STATES } from "../run_states.ts";
import { urls } from "../urls.ts";

const EXAMPLE = 'functory agent run NAME "what it is to reach"';

/** The state of a run, with the reason of one that was stopped. */
export function RunState({ of }: { of: Pick<RunRow, "state" | "reason" | "pause_requested_at"> }) {
  return (
    <>
      <State state={of.state} />
      {of.reason && <span class="dim"> {reasonText(of.reason)}</span>}
      {of.pause_requested_at && of.state !== "paused" && (
        <span class="dim" title="No further step starts."> pauses</span>
      )}
    </>
  );
}

/** The agent of a run, or the function of one without. */
export function RunOf({ of }: { of: Pick<RunRow, "agent" | "agent_version" | "function"> }) {
  return (
    <span class="function-name">
      <Name text={of.agent ?? of.function} />
      {of.agent_version !== null && <span class="dim"> v{of.agent_version}</span>}
    </span>
  );
}

/** What a wide list says in columns of their own. */
function Narrow({ of }: { of: RunRow }) {
  return (
    <span class="when-narrow dim">
      {" "}
      {of.reason ? reasonText(of.reason) : <PayloadText text={of.goal} />}
    </span>
  );
}

export const RUN_COLUMNS: readonly Column<RunRow>[] = [
  { id: "state", title: "state", width: "var(--run-state)", cell: (row) => <RunState of={row} /> },
  {
    id: "agent",
    title: "agent",
    width: "minmax(10ch, 1fr)",
    cell: (row) => (
      <>
        <RunOf of={row} />
        <Narrow of={row} />
      </>
    ),
  },
  {
    id: "goal",
    title: "goal",
    width: "minmax(12ch, 3fr)",
    priority: 2,
    cell: (row) => <PayloadText text={row.goal} />,
  },
  {
    id: "steps",
    title: "steps",
    width: "9ch",
    priority: 2,
    end: true,
    cell: (row) => (
      <>
        {count(row.step)}
        <span class="dim"> of {count(row.max_steps)}</span>
      </>
    ),
  },
  {
    id: "spent",
    title: "spent",
    width: "11ch",
    priority: 2,
    end: true,
    cell: (row) => <span class={row.usd_spent ? "" : "dim"}>{dollars(row.usd_spent)}</span>,
  },
  {
    id: "changed",
    title: "changed",
    width: "var(--when)",
    priority: 3,
    end: true,
    cell: (row) => <Ago time={row.updated_at} />,
  },
  { id: "started", title: "started", width: "var(--when)", end: true, cell: (row) => <Ago time={row.created_at} /> },
];

function useFilters(): readonly Filter[] {
  const query = place.value.query;
  const chosen = (name: string, label: string): readonly Filter[] =>
    query.has(name) ? [{ kind: "choice", name, label, choices: [] }] : [];
  return [
    { kind: "text", name: "agent", label: "agent", suggest: "/agents" },
    {
      kind: "choice",
      name: "state",
      label: "state",
      choices: RUN_STATES.map((value) => ({ value, label: value.replaceAll("_", " ") })),
    },
    { kind: "choice", name: "since", label: "since", choices: SINCE },
    ...chosen("root", "tree"),
  ];
}

export function RunsPage() {
  const filters = useFilters();
  const query = chosenFilters(filters);
  const list = useFreshList<RunRow>({ path: "/runs", query, key: (row) => row.id });
  useRenewed(list, 5);
  useKeys("Runs", [{ keys: "f", label: "Failed only", run: () => setQuery({ state: "failed" }) }]);
  return (
    <>
      <PageHead
        title="Runs"
        mark={<Mark name="run" />}
        actions={<Button onClick={() => void list.reload()}>Load again</Button>}
      />
      <FilterBar filters={filters} saved="runs" />
      <Table
        list={list}
        columns={RUN_COLUMNS}
        label="Runs"
        open={(row) => urls.run(row.id)}
        empty={
          Object.keys(query).length ? (
            <Empty title="Nothing matches the filters.">
              <Button onClick={() => clearFilters(filters)}>Remove the filters</Button>
            </Empty>
          ) : (
            <Empty title="No agent has run yet.">
              <p>
                <Copy text={EXAMPLE} what="command">
                  <code>{EXAMPLE}</code>
                </Copy>
              </p>
            </Empty>
          )
        }
      />
    </>
  );
}
