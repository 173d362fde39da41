// What the numbers of a function say: advice, its versions, and where the time of its executions went.

import { useMemo } from "preact/hooks";
import type { Advice, CallStats, FunctionStats, VersionStats } from "../api.gen.ts";
import { count, duration, percent, plural } from "../format.ts";
import { fixedList } from "../lists.ts";
import { Link } from "../parts/link.tsx";
import { Card, Copy, Name } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { urls } from "../urls.ts";

export function FunctionNumbers({ of }: { of: FunctionStats }) {
  return (
    <>
      {of.advice.length > 0 && <AdviceCard of={of.advice} />}
      {of.versions.length > 0 && <VersionNumbers of={of.versions} name={of.name} />}
      {of.calls.length > 0 && <CallNumbers of={of} />}
    </>
  );
}

function AdviceCard({ of }: { of: readonly Advice[] }) {
  return (
    <Card title="Advice">
      <ul class="names">
        {of.map((one) => (
          <li key={one.code}>
            <Name text={one.says} />
            <code>
              <Name text={one.try} />
            </code>
            <Copy text={one.try} what="what to do" />
          </li>
        ))}
      </ul>
    </Card>
  );
}

const NUMBER_COLUMNS: readonly Column<VersionStats>[] = [
  { id: "version", title: "version, 24 h", width: "14ch", cell: (row) => `v${row.version}` },
  { id: "runs", title: "runs", width: "10ch", end: true, cell: (row) => count(row.runs) },
  {
    id: "failed",
    title: "failed",
    width: "10ch",
    end: true,
    cell: (row) => <span class={row.failures ? "tone-bad" : "dim"}>{percent(row.failures, row.runs)}</span>,
  },
  {
    id: "queued",
    title: "p95 queued",
    width: "12ch",
    priority: 2,
    end: true,
    cell: (row) => duration(row.p95_queued_seconds),
  },
  {
    id: "p50",
    title: "p50 run",
    width: "12ch",
    priority: 2,
    end: true,
    cell: (row) => duration(row.p50_run_seconds),
  },
  { id: "p95", title: "p95 run", width: "12ch", end: true, cell: (row) => duration(row.p95_run_seconds) },
  {
    id: "p99",
    title: "p99 run",
    width: "12ch",
    priority: 2,
    end: true,
    cell: (row) => duration(row.p99_run_seconds),
  },
];

function VersionNumbers({ of, name }: { of: readonly VersionStats[]; name: string }) {
  const list = useMemo(() => fixedList(of, (row) => String(row.version)), [of]);
  return (
    <Table
      short
      keys={false}
      list={list}
      columns={NUMBER_COLUMNS}
      label="Numbers of each version"
      open={(row) => urls.version(name, row.version)}
      empty={null}
    />
  );
}

const CALL_COLUMNS: readonly Column<CallStats>[] = [
  {
    id: "function",
    title: "calls of",
    width: "minmax(14ch, 1fr)",
    cell: (row) => (
      <Link to={urls.function(row.function)}>
        <Name text={row.function} />
      </Link>
    ),
  },
  { id: "share", title: "of the time", width: "12ch", end: true, cell: (row) => percent(row.share, 1) },
  { id: "calls", title: "calls", width: "10ch", priority: 2, end: true, cell: (row) => count(row.calls) },
  {
    id: "failed",
    title: "failed",
    width: "10ch",
    priority: 2,
    end: true,
    cell: (row) => <span class={row.failed ? "tone-bad" : "dim"}>{percent(row.failed, row.calls)}</span>,
  },
  { id: "each", title: "each", width: "12ch", end: true, cell: (row) => duration(row.mean_seconds) },
];

function CallNumbers({ of }: { of: FunctionStats }) {
  const list = useMemo(() => fixedList(of.calls, (row) => row.function), [of]);
  return (
    <Card title={`Where the time of ${plural(of.recent.executions, "execution")} of v${of.version} went`}>
      <Table
        short
        keys={false}
        list={list}
        columns={CALL_COLUMNS}
        label="Calls of other functions"
        open={(row) => urls.function(row.function)}
        empty={null}
      />
    </Card>
  );
}
