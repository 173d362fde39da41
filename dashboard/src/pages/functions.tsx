// The list of functions.

import type { FunctionRow } from "../api.gen.ts";
import { count, duration, percent, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { useFreshList } from "../lists.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import { Spark } from "../parts/spark.tsx";
import { Ago, Copy, Empty, FunctionName, Mark, Name, PageHead, Pill } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { go } from "../router.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";

const COLUMNS: readonly Column<FunctionRow>[] = [
  {
    id: "name",
    title: "function",
    width: "minmax(20ch, 1.6fr)",
    cell: (row) => (
      <>
        <Mark name="function" tone={row.state === "disabled" ? "off" : "run"} />{" "}
        <FunctionName name={row.name} version={row.active} />
        {row.state === "disabled" && <Pill>disabled</Pill>}
        {row.active === null && row.state !== "disabled" && <Pill tone="warn">none active</Pill>}
        {row.active !== null && row.latest > row.active && (
          <Pill title="A newer version is stored">v{row.latest}</Pill>
        )}
        {row.environment_error && (
          <Pill tone="bad" title={row.environment_error}>
            environment
          </Pill>
        )}
        {row.pending_grants.length > 0 && " "}
        {row.pending_grants.length > 0 && <Pill tone="hold">{count(row.pending_grants.length)} to approve</Pill>}
      </>
    ),
  },
  {
    id: "triggers",
    title: "run by",
    width: "minmax(14ch, 1.2fr)",
    priority: 3,
    cell: (row) =>
      row.triggers.map((name, at) => (
        <span key={name}>
          {at > 0 && ", "}
          <Link to={urls.trigger(name)}>
            <Name text={name} />
          </Link>
        </span>
      )),
  },
  {
    id: "labels",
    title: "labels",
    width: "minmax(8ch, .6fr)",
    priority: 3,
    cell: (row) => <Labels of={row.labels} />,
  },
  {
    id: "spark",
    title: "24 hours",
    width: "12ch",
    priority: 2,
    cell: (row) => (
      <Spark
        values={row.spark}
        sentence={`${plural(row.runs_24h, "execution")} in 24 hours`}
        unit={(value) => plural(value, "execution")}
        labels={(at) => hourLabel(at, row.spark.length)}
      />
    ),
  },
  { id: "runs", title: "runs", width: "7ch", priority: 2, end: true, cell: (row) => count(row.runs_24h) },
  {
    id: "failed",
    title: "failed",
    width: "8ch",
    end: true,
    cell: (row) => (
      <span
        class={row.failures_24h ? "tone-bad" : "dim"}
        title={`${count(row.failures_24h)} of ${count(row.runs_24h)}`}
      >
        {row.runs_24h ? percent(row.failures_24h, row.runs_24h) : ""}
      </span>
    ),
  },
  { id: "p95", title: "p95", width: "9ch", priority: 2, end: true, cell: (row) => duration(row.p95_seconds) },
  {
    id: "updated",
    title: "changed",
    width: "10ch",
    priority: 2,
    end: true,
    cell: (row) => <Ago time={row.updated_at} />,
  },
];

const FILTERS: readonly Filter[] = [
  { kind: "text", name: "q", label: "name" },
  { kind: "choice", name: "state", label: "state", choices: [{ value: "enabled" }, { value: "disabled" }] },
  { kind: "text", name: "label", label: "label" },
];

/** `3 h ago` for the points of a day by hours. */
export function hourLabel(at: number, of: number): string {
  const back = of - 1 - at;
  return back === 0 ? "this hour" : `${back} h ago`;
}

export function Labels({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((label) => (
        <Pill key={label}>
          <Name text={label} />
        </Pill>
      ))}
    </>
  );
}

export function FunctionsPage() {
  const query = chosenFilters(FILTERS);
  const list = useFreshList<FunctionRow>({ path: "/functions", query, key: (row) => row.name });
  const filtered = Object.keys(query).length > 0;
  useKeys("Functions", [
    { keys: "n", label: "New function", run: () => go(urls.newFunction()), when: can("author") },
  ]);
  return (
    <>
      <PageHead
        title="Functions"
        mark={<Mark name="function" />}
        actions={
          can("author") && (
            <LinkButton to={urls.newFunction()} kind="primary" keys="n">
              New function
            </LinkButton>
          )
        }
      />
      <FilterBar filters={FILTERS} saved="functions" />
      <Table
        list={list}
        columns={COLUMNS}
        label="Functions"
        open={(row) => urls.function(row.name)}
        rowClass={(row) => (row.state === "disabled" ? "faint" : "")}
        empty={
          filtered ? (
            <Empty title="No function matches.">
              <Button onClick={() => clearFilters(FILTERS)}>Remove the filters</Button>
            </Empty>
          ) : (
            <Empty title="No functions yet.">
              <p>A function is ordinary Python. Write one here, or store a file:</p>
              <p>
                <Copy text="functory function add parse.py" what="command">
                  <code>functory function add parse.py</code>
                </Copy>
              </p>
              {can("author") && (
                <LinkButton to={urls.newFunction()} kind="primary">
                  Write a function
                </LinkButton>
              )}
            </Empty>
          )
        }
      />
    </>
  );
}
