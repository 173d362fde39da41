// The list of executions.

import { useMemo } from "preact/hooks";
import { type Problem, route } from "../api.ts";
import { useData } from "../data.ts";
import { BAD_STATES, CAUSES, causeText, EXECUTION_STATES, isBad } from "../execution_states.ts";
import { duration, visible } from "../format.ts";
import { useKeys } from "../keys.ts";
import { type List, listOf } from "../lists.ts";
import { forestOf, outlineRows } from "../outline_rows.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar, SINCE } from "../parts/filter_bar.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Guides, NodeText } from "../parts/outline.tsx";
import { Ago, Copy, Empty, FunctionName, More, Name, PageHead, PayloadText, Split, State } from "../parts/small.tsx";
import { type Column, type Expansion, type Line, SelectionBar, Table } from "../parts/table.tsx";
import { place, setQuery } from "../router.ts";
import type { ExecutionRow, Outline } from "../rows.ts";
import { can } from "../session.ts";
import { useStream } from "../stream.ts";
import { queryText, urls } from "../urls.ts";
import { ExecutionBeside } from "./execution_parts.tsx";
import { askBatchOfList } from "./execution_actions.ts";

/** What started it, in words. */
export function CauseText({ row }: { row: ExecutionRow }) {
  if (row.cause_name && row.parent_id)
    return (
      <span class="dim">
        called by <Name text={row.cause_name} />
      </span>
    );
  if (row.cause_name) return <Name text={row.cause_name} />;
  return <span class="dim">{causeText(row.cause)}</span>;
}

export const EXECUTION_COLUMNS: readonly Column<ExecutionRow>[] = [
  { id: "state", title: "state", width: "var(--state)", cell: (row) => <State state={row.state} /> },
  {
    id: "function",
    title: "function",
    width: "minmax(0, 1fr)",
    cell: (row) => (
      <Link to={urls.execution(row.id)}>
        <FunctionName name={row.function} version={row.version} />
        <span class="when-narrow dim">
          {" "}
          <PayloadText text={row.about} />
        </span>
      </Link>
    ),
  },
  {
    id: "about",
    title: "about",
    width: "minmax(12ch, 1.4fr)",
    priority: 2,
    cell: (row) => <PayloadText text={row.about} />,
  },
  { id: "cause", title: "cause", width: "minmax(12ch, 1fr)", priority: 3, cell: (row) => <CauseText row={row} /> },
  {
    id: "attempt",
    title: "attempt",
    width: "7ch",
    priority: 3,
    end: true,
    cell: (row) => (row.attempt > 1 ? `${row.attempt}/${row.max_attempts}` : ""),
  },
  {
    id: "queued",
    title: "queued",
    width: "9ch",
    priority: 2,
    end: true,
    cell: (row) => <span class="dim">{duration(row.queued_seconds)}</span>,
  },
  { id: "ran", title: "ran", width: "9ch", priority: 2, end: true, cell: (row) => duration(row.run_seconds) },
  { id: "when", title: "when", width: "var(--when)", end: true, cell: (row) => <Ago time={row.created_at} /> },
];

/** The filters of the address. */
export function filtersOfExecutions(): readonly Filter[] {
  return [
    {
      kind: "text",
      name: "function",
      label: "function",
      placeholder: "function",
      several: true,
      suggest: "/functions",
    },
    { kind: "choice", name: "state", label: "state", several: true, choices: EXECUTION_STATES.map(choice) },
    {
      kind: "text",
      name: "trigger",
      label: "trigger",
      placeholder: "trigger",
      several: true,
      suggest: "/triggers",
    },
    {
      kind: "choice",
      name: "cause",
      label: "cause",
      several: true,
      choices: Object.entries(CAUSES).map(([value, label]) => ({ value, label })),
    },
    { kind: "choice", name: "since", label: "since", choices: SINCE },
    { kind: "switch", name: "roots", label: "roots" },
    { kind: "switch", name: "unresolved", label: "unresolved" },
    ...(["event", "parent", "root", "replay_of", "version", "until", "q"] as const)
      .filter((name) => place.value.query.has(name))
      .map((name): Filter => ({ kind: "choice", name, label: name.replace("_", " "), choices: [] })),
  ];
}

const choice = (value: string) => ({ value, label: value.replaceAll("_", " ") });

/** Says whether a row of the stream belongs to a filtered list. A filter that cannot be judged here says no. */
export function acceptsRow(query: Readonly<Record<string, unknown>>): (row: ExecutionRow) => boolean {
  const oneOf = (name: string, value: string | null) => {
    const wanted = [query[name] ?? []].flat() as string[];
    return wanted.length === 0 || (value !== null && wanted.includes(value));
  };
  const beyond = ["q", "version", "until"].some((name) => query[name] !== undefined);
  return (row) =>
    !beyond &&
    oneOf("function", row.function) &&
    oneOf("state", row.state) &&
    oneOf("trigger", row.trigger) &&
    oneOf("cause", row.cause) &&
    oneOf("event", row.event_id) &&
    oneOf("parent", row.parent_id) &&
    oneOf("root", row.root_id) &&
    oneOf("replay_of", row.replay_of) &&
    (query["roots"] === undefined || row.root_id === row.id || row.root_id === row.event_id) &&
    (query["unresolved"] === undefined || (isBad(row.state) && !row.resolved_by));
}

export function ExecutionsPage() {
  const filters = useMemo(filtersOfExecutions, [place.value.url]);
  const query = chosenFilters(filters);
  const key = queryText(query);
  const list = useMemo(
    () =>
      listOf<ExecutionRow>({ path: "/executions", query, key: (row) => row.id, accepts: acceptsRow(query) }),
    [key],
  );
  useStream<ExecutionRow>(["executions"], {
    rows: (rows) => list.apply(rows, list.atTop),
    skipped: (n) => (list.skipped.value += n),
    resync: () => void list.reload(list.atTop),
  });
  const beside = place.value.query.get("beside");
  const expansion = useExpansion(list);
  const filtered = Object.keys(query).length > 0;
  useKeys("Executions", [
    { keys: "f", label: "Failed only", run: () => setQuery({ state: [...BAD_STATES] }) },
    { keys: "r", label: "Retry what is selected", run: () => void askBatchOfList(list, "retry"), when: acting(list) },
    { keys: "R", label: "Replay what is selected", run: () => void askBatchOfList(list, "replay"), when: acting(list) },
    { keys: "c", label: "Cancel what is selected", run: () => void askBatchOfList(list, "cancel"), when: acting(list) },
    { keys: "Escape", label: "Close the part beside", run: () => setQuery({ beside: null }), when: beside !== null },
  ]);
  return (
    <>
      <PageHead title="Executions" />
      <FilterBar filters={filters} saved="executions" />
      <Split
        left={
          <>
            <Table
              list={list}
              columns={EXECUTION_COLUMNS}
              label="Executions"
              selectable
              open={(row) => urls.execution(row.id)}
              beside={(row) => setQuery({ beside: row.id })}
              besideOpen={beside !== null}
              at={beside}
              {...(query["roots"] !== undefined && { expansion })}
              empty={<NoRows filters={filters} filtered={filtered} />}
            />
            <SelectionBar list={list}>
              <Button needs="operate" keys="r" onClick={() => void askBatchOfList(list, "retry")}>
                Retry
              </Button>
              <Button needs="operate" keys="R" onClick={() => void askBatchOfList(list, "replay")}>
                Replay
              </Button>
              <Button needs="operate" onClick={() => void askBatchOfList(list, "replay", true)}>
                Replay with active
              </Button>
              <Button needs="operate" keys="c" onClick={() => void askBatchOfList(list, "cancel")}>
                Cancel
              </Button>
            </SelectionBar>
          </>
        }
        right={beside && <ExecutionBeside key={beside} id={beside} />}
      />
    </>
  );
}

const STARTED = "what it started";
const LINES = 12;

/** What the expanded row of a list has started: the first lines of its tree. */
function useExpansion(list: List<ExecutionRow>): Expansion {
  const at = list.index.value.get(list.expanded.value ?? "");
  const row = at === undefined ? undefined : list.rows.value[at];
  const root = row?.root_id ?? "";
  // The row itself is the first node.
  const query = { at: row?.id ?? "", budget: LINES + 1 };
  const { data, error, reload } = useData<Outline>(row ? route("trees", root, "outline") : null, query, {
    topics: [`tree:${root}`],
  });
  return useMemo(() => {
    if (!data) return { what: STARTED, lines: error && [notLoaded(error, reload)] };
    const below = outlineRows(forestOf(data.nodes), new Set()).slice(1);
    const lines = below.slice(0, LINES).map((one) => ({
      key: one.node.id,
      level: one.depth + 1,
      text: (
        <>
          <Guides row={one} />
          <NodeText node={one.node} tab={0} />
        </>
      ),
    }));
    const whole = <More to={urls.tree(root, { at: query.at })}>the whole tree</More>;
    const text = lines.length ? whole : <span class="dim">It has started nothing.</span>;
    return { what: STARTED, lines: [...lines, { key: "whole", level: 2, text }] };
  }, [data, error, root, query.at]);
}

const notLoaded = (error: Problem, retry: () => void): Line => ({
  key: "error",
  level: 2,
  text: (
    <>
      <span class="tone-bad">{visible(error.what)}</span>{" "}
      <button type="button" class="link" onClick={retry}>
        load again
      </button>
    </>
  ),
});

const acting = (list: { selected: { value: ReadonlySet<string> } }) => list.selected.value.size > 0 && can("operate");

// The filter that leaves out most is named first.
const STRICT = ["q", "event", "parent", "replay_of", "version", "state", "trigger", "since", "function", "cause"];

function NoRows({ filters, filtered }: { filters: readonly Filter[]; filtered: boolean }) {
  if (!filtered)
    return (
      <Empty title="Nothing has run yet.">
        <p>Run a function from its page, emit an event, or in a terminal:</p>
        <p>
          <Copy text="functory function run NAME" what="command">
            <code>functory function run NAME</code>
          </Copy>
        </p>
      </Empty>
    );
  const name = STRICT.find((one) => place.value.query.has(one));
  return (
    <Empty title="Nothing matches the filters.">
      <p>
        {name && <Button onClick={() => setQuery({ [name]: null })}>Clear {name.replace("_", " ")}</Button>}{" "}
        <Button onClick={() => clearFilters(filters)}>Clear all filters</Button>
      </p>
    </Empty>
  );
}
