// Models: which there are, whether they answer, and what was asked of them today.

import type { Model } from "../api.gen.ts";
import { useData } from "../data.ts";
import { count, dollars } from "../format.ts";
import { useKeys } from "../keys.ts";
import { LinkButton } from "../parts/link.tsx";
import { Copy, Empty, Mark, Name, PageHead, Pill, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { go } from "../router.ts";
import { useRows } from "../rows_here.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";

const EXAMPLE = "functory model add small --adapter script --provider-model answers.json --price-in 0 --price-out 0";

/** What is wrong with a model, in a word; nothing when it can answer. */
export function Health({ of }: { of: Model }) {
  if (of.health.open_until) return <Pill tone="bad" title="Its circuit breaker is open.">breaker open</Pill>;
  if (of.secret_set === false) return <Pill tone="bad">secret not set</Pill>;
  if (of.health.failures > 0) return <Pill tone="warn">{count(of.health.failures)} failed in a row</Pill>;
  return null;
}

const COLUMNS: readonly Column<Model>[] = [
  {
    id: "name",
    title: "name",
    width: "minmax(18ch, 1fr)",
    cell: (row) => (
      <>
        <State state={row.health.open_until ? "error" : row.state} bare /> <Name text={row.name} />{" "}
        {row.state === "disabled" && <Pill tone="hold">disabled</Pill>} <Health of={row} />
      </>
    ),
  },
  {
    id: "provider",
    title: "provider's name",
    width: "minmax(16ch, 1fr)",
    priority: 2,
    cell: (row) => <Name text={row.provider_model} mono />,
  },
  { id: "in", title: "in / 1M", width: "9ch", priority: 3, end: true, cell: (row) => dollars(row.price_in) },
  { id: "out", title: "out / 1M", width: "9ch", priority: 3, end: true, cell: (row) => dollars(row.price_out) },
  {
    id: "fallbacks",
    title: "fallbacks",
    width: "minmax(10ch, .7fr)",
    priority: 3,
    cell: (row) => <Name text={row.fallbacks.join(", ")} />,
  },
  {
    id: "open",
    title: "calls now",
    width: "10ch",
    priority: 2,
    end: true,
    cell: (row) => (
      <span class={row.open_calls ? "" : "dim"}>
        {count(row.open_calls)}/{count(row.slots)}
      </span>
    ),
  },
  {
    id: "today",
    title: "calls today",
    width: "11ch",
    priority: 2,
    end: true,
    cell: (row) => <span class={row.calls_today ? "" : "dim"}>{count(row.calls_today)}</span>,
  },
  {
    id: "spent",
    title: "spent today",
    width: "12ch",
    end: true,
    cell: (row) => <span class={row.cost_today ? "" : "dim"}>{dollars(row.cost_today)}</span>,
  },
];

export function ModelsPage() {
  const data = useData<readonly Model[]>("/models", {}, { every: 5 });
  const list = useRows(data, (rows) => rows, (row) => row.name);
  const mayChange = can("admin");
  useKeys("Models", [{ keys: "n", label: "New model", run: () => go(urls.newModel()), when: mayChange }]);
  const create = mayChange && (
    <LinkButton to={urls.newModel()} kind="primary" keys="n">
      New model
    </LinkButton>
  );
  return (
    <>
      <PageHead title="Models" mark={<Mark name="model" />} actions={create} />
      <Table
        list={list}
        columns={COLUMNS}
        label="Models"
        open={(row) => urls.model(row.name)}
        empty={
          <Empty title="No models yet.">
            <p>Functions ask a language model by its name, and need the grant for it.</p>
            <p>
              <Copy text={EXAMPLE} what="command">
                <code>{EXAMPLE}</code>
              </Copy>
            </p>
            {create}
          </Empty>
        }
      />
    </>
  );
}
