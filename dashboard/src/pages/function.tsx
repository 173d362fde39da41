// A function: its code, executions, uses, tests, grants and versions.

import { useMemo } from "preact/hooks";
import type {
  ActivationRow,
  Dependent,
  Function as FunctionDetail,
  FunctionStats,
  VersionRow,
} from "../api.gen.ts";
import { action, route, send } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { count, duration, percent, plural, visible } from "../format.ts";
import { useKeys } from "../keys.ts";
import { listOf, useFreshList } from "../lists.ts";
import { ask } from "../parts/dialog.tsx";
import { Json } from "../parts/json.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import { Spark } from "../parts/spark.tsx";
import {
  Ago,
  Card,
  currentTab,
  Empty,
  Facts,
  Mark,
  More,
  Name,
  PageHead,
  Pill,
  Show,
  State,
  TabPanel,
  Tabs,
  tabKeys,
  type Tab,
} from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { go, place } from "../router.ts";
import type { ExecutionRow } from "../rows.ts";
import { can } from "../session.ts";
import { useStream } from "../stream.ts";
import { urlOf, urls } from "../urls.ts";
import { EXECUTION_COLUMNS } from "./executions.tsx";
import { CodeTab } from "./function_code.tsx";
import { FunctionNumbers } from "./function_numbers.tsx";
import { RunPanel } from "./function_run.tsx";
import { hourLabel, Labels } from "./functions.tsx";
import { LogPolicy } from "./log_policy.tsx";
import { SmallMap } from "./map.tsx";
import { jsonText } from "../json_numbers.ts";

const TABS: readonly Tab[] = [
  { id: "code", title: "Code" },
  { id: "runs", title: "Runs" },
  { id: "uses", title: "Uses" },
  { id: "tests", title: "Tests" },
  { id: "grants", title: "Grants" },
  { id: "versions", title: "Versions" },
];

export function FunctionPage({ name }: { name: string }) {
  const data = useData<FunctionDetail>(route("functions", name), {}, { every: 5 });
  const stats = useData<FunctionStats>(`${route("functions", name)}/stats`, { since: "24h" }, { every: 30 });
  const tab = currentTab(TABS);
  const from = place.value.query.get("input");
  const row = data.data;
  useKeys(
    "Function",
    tabKeys(TABS),
  );
  return (
    <>
      <PageHead
        title={<Name text={name} />}
        mark={<Mark name="function" tone="run" />}
        waits={isPending(data) || (row !== null && isPending(stats))}
        actions={row && <Actions row={row} data={data} />}
        note={row?.environment_error && <span class="tone-bad">{row.environment_error}</span>}
      >
        {row && <HeadFacts row={row} stats={stats.data} />}
      </PageHead>
      {row && <Tabs tabs={TABS} current={tab} label="Function" />}
      <Show of={data}>
        {(found) => (
          <TabPanel id={tab}>
            {tab === "code" && (
              <div class="workbench">
                <CodeTab row={found} onSaved={(saved) => data.put(saved)} />
                <RunPanel key={from} of={found} from={from} />
              </div>
            )}
            {tab === "runs" && <RunsTab row={found} data={data} stats={stats.data} />}
            {tab === "uses" && <UsesTab row={found} />}
            {tab === "tests" && <TestsTab row={found} stats={stats.data} />}
            {tab === "grants" && <GrantsTab row={found} />}
            {tab === "versions" && <VersionsTab row={found} data={data} stats={stats.data} />}
          </TabPanel>
        )}
      </Show>
    </>
  );
}

function HeadFacts({ row, stats }: { row: FunctionDetail; stats: FunctionStats | null }) {
  const runs = stats?.versions.reduce((sum, one) => sum + one.runs, 0) ?? 0;
  const failures = stats?.versions.reduce((sum, one) => sum + one.failures, 0) ?? 0;
  const series = stats?.series ?? [];
  const p95 = stats?.versions.find((one) => one.version === row.active)?.p95_run_seconds ?? null;
  return (
    <>
      {row.active === null ? (
        <State state={row.state === "disabled" ? "disabled" : "held"} />
      ) : (
        <Link to={urls.version(row.name, row.active)}>v{row.active} active</Link>
      )}
      {row.state === "disabled" && row.active !== null && <Pill>disabled</Pill>}
      {row.mark && <Pill tone={row.mark.mark === "bad" ? "bad" : "ok"}>marked {row.mark.mark}</Pill>}
      {runs > 0 && <span>{plural(runs, "run")} in 24 h</span>}
      {runs > 0 && <span class={failures ? "tone-bad" : ""}>{percent(failures, runs)} failed</span>}
      {p95 !== null && <span>p95 {duration(p95)}</span>}
      {series.length > 1 && runs > 0 && (
        <Spark
          values={series.map((one) => one.runs)}
          sentence={`${plural(runs, "execution")} in 24 hours`}
          unit={(value) => plural(value, "execution")}
          labels={(at) => hourLabel(at, series.length)}
        />
      )}
      <Labels of={row.labels} />
    </>
  );
}

function Actions({ row, data }: { row: FunctionDetail; data: Data<FunctionDetail> }) {
  const change = async (verb: string) => {
    try {
      data.put(await send<FunctionDetail>("POST", action(verb, "functions", row.name), {}, { once: true }));
      toast({ text: verb === "disable" ? `${row.name} is disabled` : `${row.name} is enabled` });
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <>
      {row.state === "enabled" ? (
        <Button
          needs="author"
          onClick={() =>
            ask({
              title: `Disable ${row.name}?`,
              body: `New executions are refused until it is enabled again. It is run by ${triggersText(row)}.`,
              verb: "Disable",
              run: () => change("disable"),
            })
          }
        >
          Disable
        </Button>
      ) : (
        <Button needs="author" onClick={() => void change("enable")}>
          Enable
        </Button>
      )}
      <Button
        needs="author"
        kind="plain"
        onClick={() =>
          ask({
            title: `Delete ${row.name}?`,
            body: "Its executions and versions stay readable. What uses it must be changed first.",
            verb: "Delete the function",
            typed: row.name,
            run: async () => {
              await send("DELETE", route("functions", row.name));
              toast({ text: `${row.name} is deleted` });
              go(urls.functions());
            },
          })
        }
      >
        Delete
      </Button>
    </>
  );
}

const triggersText = (row: FunctionDetail) =>
  row.triggers.length ? plural(row.triggers.length, "trigger") : "no trigger";

function RunsTab({ row, data, stats }: {
  row: FunctionDetail;
  data: Data<FunctionDetail>;
  stats: FunctionStats | null;
}) {
  const name = row.name;
  const list = useMemo(
    () =>
      listOf<ExecutionRow>({
        path: "/executions",
        query: { function: name },
        key: (row) => row.id,
        limit: 50,
        accepts: (row) => row.function === name,
      }),
    [name],
  );
  useStream(["executions"], {
    rows: (rows) => list.apply(rows as readonly ExecutionRow[], true),
    resync: () => void list.reload(),
  });
  return (
    <div class="stack">
      {stats && <FunctionNumbers of={stats} />}
      <Table
        short
        list={list}
        columns={EXECUTION_COLUMNS}
        label="Executions"
        open={(row) => urls.execution(row.id)}
        empty={<Empty title="It has not run yet." />}
      />
      <p>
        <More to={urls.executions({ function: name })}>All its executions</More>
      </p>
      <LogPolicy row={row} data={data} />
    </div>
  );
}

function UsesTab({ row }: { row: FunctionDetail }) {
  const dependents = useData<readonly Dependent[]>(`${route("functions", row.name)}/dependents`);
  const uses = row.dependencies.map((one) => ({
    name: String(one["name"] ?? ""),
    version: typeof one["version"] === "number" ? one["version"] : null,
  }));
  return (
    <div class="stack">
      <div class="two-columns">
        <Card title="It uses">
          {uses.length ? (
            <ul class="names">
              {uses.map((one) => (
                <li key={one.name}>
                  <Mark name="function" />
                  <Link to={urls.function(one.name)}>
                    <Name text={one.name} />
                  </Link>
                  {one.version !== null && <span class="dim">v{one.version}</span>}
                </li>
              ))}
            </ul>
          ) : (
            <p class="dim">No other function.</p>
          )}
        </Card>
        <Card title="Used by">
          <Show of={dependents} rows={2}>
            {(found) =>
              found.length ? (
                <ul class="names">
                  {found.map((one) => {
                    const to = urlOf(one.kind, one.name);
                    return (
                      <li key={`${one.kind} ${one.name}`}>
                        <Mark name={one.kind} />
                        {to && (
                          <Link to={to}>
                            <Name text={one.name} />
                          </Link>
                        )}
                        <span class="dim">{one.kind}</span>
                      </li>
                    );
                  })}
                </ul>
              ) : (
                <p class="dim">No function and no trigger.</p>
              )
            }
          </Show>
        </Card>
      </div>
      <SmallMap around={`function:${row.name}`} />
    </div>
  );
}

function TestsTab({ row, stats }: { row: FunctionDetail; stats: FunctionStats | null }) {
  const active = stats?.versions.find((one) => one.version === row.number);
  const patterns = Object.keys(row.output_patterns).length > 0;
  return (
    <div class="stack">
      <div class="two-columns">
        <Card title="Input is checked against">
          <Json value={row.input_schema ?? true} label="Input schema" />
        </Card>
        <Card title="Output is checked against">
          <Json value={row.output_schema ?? true} label="Output schema" />
        </Card>
      </div>
      {patterns && (
        <Card title="Outputs that become events">
          <Json value={row.output_patterns} label="Output patterns" />
        </Card>
      )}
      <Card
        title={`Outcomes of v${row.number} in 24 hours`}
        more={<More to={urls.executions({ function: row.name })}>executions</More>}
      >
        {active ? (
          <Facts of={Object.entries(active.outcomes).map(([state, number]) => [state, count(number)] as const)} />
        ) : (
          <p class="dim">It has not run.</p>
        )}
      </Card>
      <Card title="Verdict">
        {row.mark ? (
          <p>
            <Pill tone={row.mark.mark === "bad" ? "bad" : "ok"}>{row.mark.mark}</Pill>{" "}
            <Name text={row.mark.reason} />{" "}
            <span class="dim">
              by <Name text={row.mark.by} />, <Ago time={row.mark.at} />
            </span>
          </p>
        ) : (
          <p class="dim">
            No version is marked by a validation. A validation is a trigger on <code>function.updated</code> that
            runs the new version and marks it.
          </p>
        )}
      </Card>
    </div>
  );
}

function GrantsTab({ row }: { row: FunctionDetail }) {
  const grants = Object.entries(row.grants).filter(([, value]) => value !== null && value !== false);
  return (
    <div class="stack">
      {row.pending_grants.length > 0 && (
        <p class="notice">
          {plural(row.pending_grants.length, "grant")} wait{row.pending_grants.length === 1 ? "s" : ""} for
          approval; it runs without {row.pending_grants.length === 1 ? "it" : "them"}:{" "}
          {row.pending_grants.join(", ")}. <More to={urls.approvals()}>Approvals</More>
        </p>
      )}
      <Card title="In force">
        {grants.length || row.secrets.length || row.permissions.length ? (
          <Facts
            of={[
              ...grants.map(([name, value]) => [name, <code key={name}>{jsonText(value)}</code>] as const),
              ["secrets", row.secrets.join(", ")],
              ["permissions", row.permissions.join(", ")],
            ]}
          />
        ) : (
          <p class="dim">
            It may compute. It reads no file, reaches no host, starts no program and sees no secret.
          </p>
        )}
      </Card>
      <Card title="Environment">
        <Facts
          of={[
            ["packages", row.requirements.join(", ") || "those of Functory"],
            [
              "limits",
              Object.keys(row.limits).length ? <code>{jsonText(row.limits)}</code> : "those of the settings",
            ],
            ["compensated by", row.compensate],
            ["reused", row.reuse ? "an equal result is taken again" : null],
          ]}
        />
      </Card>
    </div>
  );
}

function VersionsTab({
  row,
  data,
  stats,
}: {
  row: FunctionDetail;
  data: Data<FunctionDetail>;
  stats: FunctionStats | null;
}) {
  const versions = useFreshList<VersionRow>({
    path: `${route("functions", row.name)}/versions`,
    key: (one) => String(one.number),
  });
  const history = useData<readonly ActivationRow[]>(`${route("functions", row.name)}/history`);
  const changed = (found: FunctionDetail) => {
    data.put(found);
    void versions.reload();
    history.reload();
  };
  const columns: readonly Column<VersionRow>[] = [
    {
      id: "number",
      title: "version",
      width: "minmax(14ch, 1fr)",
      cell: (one) => (
        <>
          <span class={one.number === row.active ? "bold" : ""}>v{one.number}</span>{" "}
          {one.number === row.active && <Pill tone="ok">active</Pill>}{" "}
          {one.mark && (
            <Pill tone={one.mark.mark === "bad" ? "bad" : "ok"} title={visible(one.mark.reason)}>
              {one.mark.mark}
            </Pill>
          )}{" "}
          {one.findings.length > 0 && <Pill tone="warn">{plural(one.findings.length, "finding")}</Pill>}
        </>
      ),
    },
    {
      id: "author",
      title: "by",
      width: "minmax(10ch, 1fr)",
      priority: 2,
      cell: (one) => <Name text={one.author} />,
    },
    {
      id: "runs",
      title: "runs, 24 h",
      width: "11ch",
      priority: 2,
      end: true,
      cell: (one) => count(stats?.versions.find((number) => number.version === one.number)?.runs ?? 0),
    },
    { id: "when", title: "saved", width: "11ch", end: true, cell: (one) => <Ago time={one.created_at} /> },
    {
      id: "compare",
      title: "",
      width: "26ch",
      priority: 2,
      end: true,
      cell: (one) => (
        <span class="row-actions">
          {one.number > 1 && <Link to={urls.diff(row.name, one.number - 1, one.number)}>diff</Link>}
          {one.number !== row.active && (
            <Button kind="plain" needs="author" onClick={() => askActivate(row, one, changed)}>
              Activate
            </Button>
          )}
        </span>
      ),
    },
  ];
  return (
    <div class="stack">
      <Table
        short
        list={versions}
        columns={columns}
        label="Versions"
        open={(one) => urls.version(row.name, one.number)}
        empty={null}
      />
      {row.active !== null && row.active > 1 && can("author") && (
        <p>
          <Button needs="author" onClick={() => askRollback(row, changed)}>
            Roll back to the version before
          </Button>
        </p>
      )}
      <Card title="What was active when">
        <Show of={history} rows={3}>
          {(rows) => (
            <ul class="history">
              {rows.map((one) => (
                <li key={one.at}>
                  <span class="history-when">
                    <Ago time={one.at} />
                  </span>
                  <span class="bold">v{one.version}</span>
                  <span>
                    {one.reason.replaceAll("_", " ")} by <Name text={one.author} />
                    {one.previous !== null && <span class="dim">, v{one.previous} before</span>}
                  </span>
                  {one.cause_execution_id && <More to={urls.execution(one.cause_execution_id)}>execution</More>}
                  {one.previous !== null && <More to={urls.diff(row.name, one.previous, one.version)}>diff</More>}
                </li>
              ))}
            </ul>
          )}
        </Show>
      </Card>
    </div>
  );
}

/** Asks before a version becomes the active one. */
export function askActivate(
  row: FunctionDetail,
  version: Pick<VersionRow, "number" | "mark">,
  done: (row: FunctionDetail) => void,
): void {
  const bad = version.mark?.mark === "bad";
  ask({
    title: `Activate v${version.number} of ${row.name}?`,
    body: (
      <>
        <p>
          New executions run v{version.number}
          {row.active !== null && ` instead of v${row.active}`}. {plural(row.triggers.length, "trigger")} run
          {row.triggers.length === 1 ? "s" : ""} it.
        </p>
        {bad && <p class="tone-bad">It is marked bad: {visible(version.mark?.reason ?? "")}</p>}
      </>
    ),
    verb: "Activate",
    danger: bad,
    run: async () => {
      const body = { version: version.number, force: bad };
      done(
        await send<FunctionDetail>("POST", action("activate", "functions", row.name), body, {
          once: true,
          ifMatch: row.active ?? 0,
        }),
      );
      toast({ text: `v${version.number} of ${row.name} is active` });
    },
  });
}

function askRollback(row: FunctionDetail, done: (row: FunctionDetail) => void): void {
  ask({
    title: `Roll ${row.name} back?`,
    body: `The version that was active before becomes active again. v${row.active} is marked bad.`,
    verb: "Roll back",
    danger: true,
    run: async () => {
      const body = row.active === null ? {} : { from_version: row.active };
      const found = await send<FunctionDetail>("POST", action("rollback", "functions", row.name), body, {
        once: true,
      });
      done(found);
      toast({ text: `${row.name} is back at v${found.active}` });
    },
  });
}

/** The page of a function that does not exist yet. */
export function NewFunctionPage() {
  return (
    <>
      <PageHead
        title="New function"
        mark={<Mark name="function" tone="run" />}
        actions={<LinkButton to={urls.functions()}>Cancel</LinkButton>}
      />
      <div class="page-body">
        <CodeTab row={null} onSaved={(saved) => go(urls.function(saved.name))} />
      </div>
    </>
  );
}
