// The list of triggers.

import type { TriggerRow } from "../api.gen.ts";
import { count, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { useFreshList } from "../lists.ts";
import { patternLine } from "../pattern_line.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import { Spark } from "../parts/spark.tsx";
import { Ago, Copy, Empty, Mark, Name, PageHead, Pill, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { go } from "../router.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { hourLabel, Labels } from "./functions.tsx";

const COLUMNS: readonly Column<TriggerRow>[] = [
  {
    id: "name",
    title: "trigger",
    width: "minmax(20ch, 1.2fr)",
    cell: (row) => (
      <>
        <State state={row.breaker ? "open" : row.state} bare /> <Name text={row.name} />{" "}
        {row.state !== "enabled" && (
          <Pill tone="hold" title={row.note ?? undefined}>
            {row.state}
          </Pill>
        )}
        {row.breaker && <Pill tone="warn">breaker open</Pill>}
      </>
    ),
  },
  {
    id: "on",
    title: "on",
    width: "minmax(16ch, 1.6fr)",
    priority: 2,
    cell: (row) => (
      <span class="mono dim">
        <Name text={patternLine(row.on)} />
      </span>
    ),
  },
  {
    id: "function",
    title: "runs",
    width: "minmax(12ch, .9fr)",
    priority: 2,
    cell: (row) => (
      <Link to={urls.function(row.function.split("@")[0] ?? row.function)}>
        <Name text={row.function} />
      </Link>
    ),
  },
  {
    id: "labels",
    title: "labels",
    width: "minmax(8ch, .5fr)",
    priority: 3,
    cell: (row) => <Labels of={row.labels} />,
  },
  {
    id: "spark",
    title: "24 hours",
    width: "12ch",
    priority: 3,
    cell: (row) => (
      <Spark
        values={row.spark}
        sentence={`fired ${plural(row.fired_24h, "time")} in 24 hours`}
        unit={(value) => `fired ${count(value)}×`}
        labels={(at) => hourLabel(at, row.spark.length)}
      />
    ),
  },
  { id: "fired", title: "fired", width: "8ch", end: true, cell: (row) => count(row.fired_24h) },
  {
    id: "suppressed",
    title: "stopped",
    width: "8ch",
    priority: 2,
    end: true,
    cell: (row) => <span class={row.suppressed_24h ? "tone-warn" : "dim"}>{count(row.suppressed_24h)}</span>,
  },
  { id: "last", title: "last", width: "10ch", end: true, cell: (row) => <Ago time={row.last_at} /> },
];

const FILTERS: readonly Filter[] = [
  { kind: "text", name: "q", label: "name" },
  {
    kind: "choice",
    name: "state",
    label: "state",
    several: true,
    choices: [{ value: "enabled" }, { value: "paused" }, { value: "shadow" }],
  },
  { kind: "text", name: "function", label: "function" },
  { kind: "text", name: "label", label: "label" },
];

export function TriggersPage() {
  const query = chosenFilters(FILTERS);
  const list = useFreshList<TriggerRow>({ path: "/triggers", query, key: (row) => row.name });
  useKeys("Triggers", [{ keys: "n", label: "New trigger", run: () => go(urls.newTrigger()), when: can("author") }]);
  return (
    <>
      <PageHead
        title="Triggers"
        mark={<Mark name="trigger" />}
        actions={
          can("author") && (
            <LinkButton to={urls.newTrigger()} kind="primary" keys="n">
              New trigger
            </LinkButton>
          )
        }
      />
      <FilterBar filters={FILTERS} saved="triggers" />
      <Table
        list={list}
        columns={COLUMNS}
        label="Triggers"
        open={(row) => urls.trigger(row.name)}
        empty={
          Object.keys(query).length ? (
            <Empty title="No trigger matches.">
              <Button onClick={() => clearFilters(FILTERS)}>Remove the filters</Button>
            </Empty>
          ) : (
            <Empty title="No triggers yet.">
              <p>A trigger runs a function when an event matches its pattern.</p>
              <p>
                <Copy text={EXAMPLE} what="command">
                  <code>{EXAMPLE}</code>
                </Copy>
              </p>
              {can("author") && (
                <LinkButton to={urls.newTrigger()} kind="primary">
                  Make a trigger
                </LinkButton>
              )}
            </Empty>
          )
        }
      />
    </>
  );
}

const EXAMPLE = `functory trigger add reorder --on '{"type": ["stock.changed"]}' --function reorder`;
