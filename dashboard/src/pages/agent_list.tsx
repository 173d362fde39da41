// Agents: which there are, and what each may use.

import type { Agent } from "../api.gen.ts";
import { useData } from "../data.ts";
import { count } from "../format.ts";
import { Copy, Empty, Mark, Name, PageHead, Pill, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { useRows } from "../rows_here.ts";
import { urls } from "../urls.ts";

const EXAMPLE = "functory agent add NAME --function STEP_FUNCTION --model small --tool TOOL --limit usd=0.10";

const COLUMNS: readonly Column<Agent>[] = [
  {
    id: "name",
    title: "name",
    width: "minmax(16ch, .8fr)",
    cell: (row) => (
      <>
        <State state={row.state} bare /> <Name text={row.name} />
        <span class="dim"> v{row.version}</span> {row.state === "disabled" && <Pill tone="hold">disabled</Pill>}
      </>
    ),
  },
  {
    id: "description",
    title: "description",
    width: "minmax(16ch, 1.4fr)",
    priority: 2,
    cell: (row) => <Name text={row.definition.description} />,
  },
  {
    id: "function",
    title: "step function",
    width: "minmax(12ch, .8fr)",
    priority: 3,
    cell: (row) => <Name text={row.definition.function} />,
  },
  {
    id: "model",
    title: "model",
    width: "minmax(10ch, .6fr)",
    cell: (row) => (row.definition.model ? <Name text={row.definition.model} /> : <span class="dim">none</span>),
  },
  {
    id: "tools",
    title: "tools",
    width: "8ch",
    priority: 2,
    end: true,
    cell: (row) => <span title={row.definition.tools.join(", ")}>{count(row.definition.tools.length)}</span>,
  },
];

export function AgentsPage() {
  const data = useData<readonly Agent[]>("/agents", {}, { every: 15 });
  const list = useRows(data, (rows) => rows, (row) => row.name);
  return (
    <>
      <PageHead title="Agents" mark={<Mark name="agent" />} />
      <Table
        list={list}
        columns={COLUMNS}
        label="Agents"
        open={(row) => urls.agent(row.name)}
        empty={
          <Empty title="No agents yet.">
            <p>An agent works towards a goal in steps: it asks a model, uses functions as tools, asks a person.</p>
            <p>
              <Copy text={EXAMPLE} what="command">
                <code>{EXAMPLE}</code>
              </Copy>
            </p>
          </Empty>
        }
      />
    </>
  );
}
