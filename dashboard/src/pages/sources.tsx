// Schedules, watches, webhooks and queues: one list for four groups of sources.

import type { SourceRow } from "../api.gen.ts";
import { type Data, useData } from "../data.ts";
import { count, duration } from "../format.ts";
import { useKeys } from "../keys.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import type { MarkName } from "../parts/marks.ts";
import { Ago, Copy, Empty, Mark, Name, PageHead, Pill, State } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { go } from "../router.ts";
import { useRows } from "../rows_here.ts";
import { can } from "../session.ts";
import { type Href, urls } from "../urls.ts";

/** A group of sources: what its pages are called, and which kinds belong to it. */
export interface SourceGroup {
  readonly id: "schedules" | "watches" | "webhooks" | "queues";
  readonly title: string;
  readonly one: string;
  readonly mark: MarkName;
  /** The kind of a source that is made here. */
  readonly kind: string;
  readonly list: () => Href;
  readonly page: (name: string, query?: Readonly<Record<string, string>>) => Href;
  readonly about: string;
  readonly example: string;
}

export const SCHEDULES: SourceGroup = {
  id: "schedules",
  title: "Schedules",
  one: "schedule",
  mark: "schedule",
  kind: "schedule",
  list: urls.schedules,
  page: urls.schedule,
  about: "A schedule makes an event at times: by cron, at intervals, or at given instants.",
  example: "functory schedule add report --cron '0 7 * * 1-5' --function report",
};
export const WATCHES: SourceGroup = {
  id: "watches",
  title: "Watches",
  one: "watch",
  mark: "file",
  kind: "file",
  list: urls.watches,
  page: urls.watch,
  about: "A watch makes an event when a file below a folder, or a row of a table, changes.",
  example: "functory watch add inbox ./inbox",
};
export const WEBHOOKS: SourceGroup = {
  id: "webhooks",
  title: "Webhooks",
  one: "webhook",
  mark: "webhook",
  kind: "webhook",
  list: urls.webhooks,
  page: urls.webhook,
  about: "A webhook makes an event of what others send over HTTP, once it knows who they are.",
  example: "functory webhook add shop --auth github --secret SHOP_SECRET",
};
export const QUEUES: SourceGroup = {
  id: "queues",
  title: "Queues",
  one: "queue",
  mark: "queue",
  kind: "queue",
  list: urls.queues,
  page: urls.queue,
  about: "A queue makes an event of each message of RabbitMQ or Redis.",
  example: `functory source add queue orders --config '{"queue": "orders", "broker": "own"}'`,
};
export const GROUPS = [SCHEDULES, WATCHES, WEBHOOKS, QUEUES] as const;

/** True when a kind of sources is shown in the group. Kinds of plug-ins are watches. */
function belongs(group: SourceGroup, kind: string): boolean {
  const owner = GROUPS.find((one) => one.kind === kind) ?? WATCHES;
  return owner === group;
}

/** The page of a source. */
export function sourcePage(group: SourceGroup, row: { kind: string; name: string }): Href {
  return group.page(row.name, row.kind === group.kind ? {} : { kind: row.kind });
}

const NAME: Column<SourceRow> = {
  id: "name",
  title: "name",
  width: "minmax(18ch, 1fr)",
  cell: (row) => (
    <>
      <State state={row.problem ? "error" : row.state} bare /> <Name text={row.name} />{" "}
      {row.state === "paused" && (
        <Pill tone="hold" title={row.note ?? undefined}>
          paused
        </Pill>
      )}
      {row.problem && <Pill tone="bad">problem</Pill>}
    </>
  ),
};
const ABOUT = (title: string): Column<SourceRow> => ({
  id: "about",
  title,
  width: "minmax(18ch, 1.6fr)",
  priority: 2,
  cell: (row) => (
    <span class="mono">
      <Name text={row.about} />
    </span>
  ),
});
const WHY: Column<SourceRow> = {
  id: "why",
  title: "note",
  width: "minmax(14ch, 1.4fr)",
  priority: 3,
  cell: (row) => (
    <span class={row.problem ? "tone-bad" : "dim"}>
      <Name text={row.problem ?? (row.state === "paused" ? row.note : "")} />
    </span>
  ),
};
// A poll of the scheduler or the watcher is no lag.
const LAG_SECONDS = 5;

/** How far behind now a source is. */
export function Lag({ of }: { of: SourceRow }) {
  if (of.lag_seconds === null) return <span class="dim">–</span>;
  if (of.lag_seconds < LAG_SECONDS) return <span class="dim">none</span>;
  return <span class="tone-warn">{duration(of.lag_seconds)}</span>;
}

const LAG: Column<SourceRow> = {
  id: "lag",
  title: "lag",
  width: "8ch",
  priority: 2,
  end: true,
  cell: (row) => <Lag of={row} />,
};
const LAST: Column<SourceRow> = {
  id: "last",
  title: "last event",
  width: "var(--when)",
  end: true,
  cell: (row) => <Ago time={row.last_event_at} />,
};
const HOURLY: Column<SourceRow> = {
  id: "hourly",
  title: "events/h",
  width: "9ch",
  priority: 2,
  end: true,
  cell: (row) => <span class={row.events_last_hour ? "" : "dim"}>{count(row.events_last_hour)}</span>,
};
const REFUSED: Column<SourceRow> = {
  id: "refused",
  title: "refused",
  width: "8ch",
  priority: 2,
  end: true,
  cell: (row) => <span class={row.refused ? "tone-warn" : "dim"}>{count(row.refused)}</span>,
};
const HOLDER: Column<SourceRow> = {
  id: "holder",
  title: "runs in",
  width: "minmax(10ch, .8fr)",
  priority: 3,
  cell: (row) => (
    <span class="dim">
      <Name text={row.holder} />
    </span>
  ),
};

const COLUMNS: Readonly<Record<SourceGroup["id"], readonly Column<SourceRow>[]>> = {
  schedules: [
    NAME,
    { id: "times", title: "times", width: "minmax(16ch, 1fr)", priority: 2, cell: (row) => <Name text={row.when} /> },
    {
      id: "zone",
      title: "zone",
      width: "16ch",
      priority: 3,
      cell: (row) => (
        <span class="dim">
          <Name text={row.timezone} />
        </span>
      ),
    },
    {
      id: "function",
      title: "runs",
      width: "minmax(12ch, .8fr)",
      priority: 2,
      cell: (row) =>
        row.function && (
          <Link to={urls.function(row.function.split("@")[0] ?? "")}>
            <Name text={row.function} />
          </Link>
        ),
    },
    WHY,
    LAG,
    {
      id: "missed",
      title: "missed",
      width: "7ch",
      priority: 3,
      end: true,
      cell: (row) => <span class={row.missed ? "tone-warn" : "dim"}>{count(row.missed)}</span>,
    },
    {
      id: "next",
      title: "next",
      width: "var(--when)",
      end: true,
      cell: (row) => (row.state === "paused" ? <span class="dim">–</span> : <Ago time={row.next_at} />),
    },
    {
      id: "last",
      title: "last",
      width: "var(--when)",
      priority: 2,
      end: true,
      cell: (row) => <Ago time={row.last_at} />,
    },
  ],
  watches: [
    NAME,
    { id: "kind", title: "kind", width: "8ch", priority: 3, cell: (row) => <Name text={row.kind} /> },
    ABOUT("watches"),
    WHY,
    HOLDER,
    LAG,
    HOURLY,
    {
      id: "looked",
      title: "looked at",
      width: "var(--when)",
      priority: 3,
      end: true,
      cell: (row) => row.looked_at && <Ago time={row.looked_at} />,
    },
    LAST,
  ],
  webhooks: [
    NAME,
    { ...ABOUT("proof"), width: "12ch" },
    {
      id: "url",
      title: "address",
      width: "minmax(20ch, 1.6fr)",
      priority: 2,
      cell: (row) =>
        row.url && (
          <span class="mono">
            <Name text={row.url} /> <Copy text={row.url} what="address" />
          </span>
        ),
    },
    WHY,
    HOURLY,
    REFUSED,
    LAST,
  ],
  queues: [
    NAME,
    ABOUT("queue"),
    WHY,
    HOLDER,
    {
      id: "waiting",
      title: "waiting",
      width: "9ch",
      end: true,
      cell: (row) => (row.waiting === null ? <span class="dim">–</span> : count(row.waiting)),
    },
    LAG,
    HOURLY,
    REFUSED,
    LAST,
  ],
};

const FILTERS: readonly Filter[] = [
  { kind: "text", name: "q", label: "name" },
  {
    kind: "choice",
    name: "state",
    label: "state",
    choices: [{ value: "enabled" }, { value: "paused" }, { value: "problem" }],
  },
];

function passes(row: SourceRow, query: Readonly<Record<string, unknown>>): boolean {
  const text = String(query["q"] ?? "").toLowerCase();
  const state = query["state"];
  return (
    row.name.toLowerCase().includes(text) &&
    (state === undefined || (state === "problem" ? row.problem !== null : row.state === state))
  );
}

function SourcesPage({ group }: { group: SourceGroup }) {
  const data: Data<readonly SourceRow[]> = useData(group === WATCHES ? "/sources" : `/sources/${group.kind}`, {}, {
    every: 5,
  });
  const query = chosenFilters(FILTERS);
  const list = useRows(
    data,
    (rows) => rows.filter((row) => belongs(group, row.kind) && passes(row, query)),
    (row) => `${row.kind}/${row.name}`,
  );
  const mayAuthor = can("author");
  const create = urls.newSource(group.one);
  useKeys(group.title, [{ keys: "n", label: `New ${group.one}`, run: () => go(create), when: mayAuthor }]);
  return (
    <>
      <PageHead
        title={group.title}
        mark={<Mark name={group.mark} />}
        actions={
          mayAuthor && (
            <LinkButton to={create} kind="primary" keys="n">
              New {group.one}
            </LinkButton>
          )
        }
      />
      <FilterBar filters={FILTERS} saved={group.id} />
      <Table
        list={list}
        columns={COLUMNS[group.id]}
        label={group.title}
        open={(row) => sourcePage(group, row)}
        empty={
          Object.keys(query).length ? (
            <Empty title={`No ${group.one} matches.`}>
              <Button onClick={() => clearFilters(FILTERS)}>Remove the filters</Button>
            </Empty>
          ) : (
            <Empty title={`No ${group.title.toLowerCase()} yet.`}>
              <p>{group.about}</p>
              <p>
                <Copy text={group.example} what="command">
                  <code>{group.example}</code>
                </Copy>
              </p>
              {mayAuthor && (
                <LinkButton to={create} kind="primary">
                  New {group.one}
                </LinkButton>
              )}
            </Empty>
          )
        }
      />
    </>
  );
}

export const SchedulesPage = () => <SourcesPage key="schedules" group={SCHEDULES} />;
export const WatchesPage = () => <SourcesPage key="watches" group={WATCHES} />;
export const WebhooksPage = () => <SourcesPage key="webhooks" group={WEBHOOKS} />;
export const QueuesPage = () => <SourcesPage key="queues" group={QUEUES} />;
