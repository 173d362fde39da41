// One version of a function, and the difference of two.

import { useState } from "preact/hooks";
import type { Difference, Function as FunctionDetail, VersionUse } from "../api.gen.ts";
import { action, route, send } from "../api.ts";
import { isPending, useData } from "../data.ts";
import { count, visible } from "../format.ts";
import { ask } from "../parts/dialog.tsx";
import { canonical, Diff } from "../parts/diff.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import { Code } from "../parts/code.tsx";
import { Ago, Card, Empty, Facts, FunctionName, Mark, More, Name, PageHead, Pill, Show } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { askBatch } from "./execution_actions.ts";
import { askActivate } from "./function.tsx";
import { RunPanel } from "./function_run.tsx";

export function VersionPage({ name, n }: { name: string; n: string }) {
  const number = Number(n);
  const data = useData<FunctionDetail>(
    Number.isInteger(number) ? `${route("functions", name)}/versions/${number}` : null,
  );
  const row = data.data;
  return (
    <>
      <PageHead
        title={<FunctionName name={name} version={number} />}
        mark={<Mark name="function" tone="run" />}
        waits={isPending(data)}
        actions={
          row && (
            <>
              {number > 1 && (
                <LinkButton to={urls.diff(name, number - 1, number)}>Compare with v{number - 1}</LinkButton>
              )}
              {row.active !== null && row.active !== number && (
                <LinkButton to={urls.diff(name, number, row.active)}>Compare with the active one</LinkButton>
              )}
              {can("author") && <LinkButton to={urls.function(name, { from: number })}>Edit from here</LinkButton>}
              {row.active !== number && (
                <Button
                  needs="author"
                  kind="primary"
                  onClick={() => askActivate(row, row, (changed) => data.put({ ...row, active: changed.active }))}
                >
                  Activate
                </Button>
              )}
              <Button needs="author" kind="plain" onClick={() => askMark(row, (changed) => data.put(changed))}>
                Mark {row.mark?.mark === "bad" ? "good" : "bad"}
              </Button>
            </>
          )
        }
      >
        {row && (
          <>
            {row.active === number ? (
              <Pill tone="ok">active</Pill>
            ) : (
              <Link to={urls.function(name)}>active: {row.active === null ? "none" : `v${row.active}`}</Link>
            )}
            {row.mark && (
              <Pill tone={row.mark.mark === "bad" ? "bad" : "ok"} title={visible(row.mark.reason)}>
                {row.mark.mark}
              </Pill>
            )}
            <span>
              by <Name text={row.author} />, <Ago time={row.created_at} />
            </span>
            {row.cause_execution_id && (
              <More to={urls.execution(row.cause_execution_id)}>saved by an execution</More>
            )}
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(found) => (
            <div class="workbench">
              <div class="workbench-main stack">
                <Code size="tall" language="python" label={`Source of ${name} v${number}`} value={found.source} />
                <BlastRadius name={name} number={number} active={found.active} />
                <Card title="Content">
                  <Facts
                    of={[
                      ["hash", <code key="h">{found.sha256.slice(0, 16)}</code>],
                      ["packages", found.requirements.join(", ")],
                      ["secrets", found.secrets.join(", ")],
                      ["modules of one's own", Object.keys(found.modules).join(", ")],
                      ["verdict", found.mark && `${found.mark.mark}: ${visible(found.mark.reason)} (${found.mark.by})`],
                    ]}
                  />
                </Card>
              </div>
              <RunPanel of={found} version={number} />
            </div>
          )}
        </Show>
      </div>
    </>
  );
}

function askMark(row: FunctionDetail, done: (row: FunctionDetail) => void): void {
  const mark = row.mark?.mark === "bad" ? "good" : "bad";
  ask({
    title: `Mark v${row.number} ${mark}?`,
    body: mark === "bad" ? "A bad version is activated only by force. It stays active if it is now." : null,
    verb: `Mark ${mark}`,
    ask: { label: "Reason", required: true },
    run: async (reason) => {
      const body = { version: row.number, mark, reason };
      done(await send<FunctionDetail>("POST", action("mark", "functions", row.name), body, { once: true }));
      toast({ text: `v${row.number} is marked ${mark}` });
    },
  });
}

/** What executions of a version have touched: to be looked at after a wrong one. */
function BlastRadius({ name, number, active }: { name: string; number: number; active: number | null }) {
  const data = useData<VersionUse>(`${route("functions", name)}/use`, { from: number });
  return (
    <Card
      title="What this version has touched"
      more={<More to={urls.executions({ function: name, version: number })}>its executions</More>}
    >
      <Show of={data} rows={3}>
        {(use) =>
          use.executions === 0 ? (
            <p class="dim">It has not run.</p>
          ) : (
            <>
              <Facts
                of={[
                  ["executions", `${count(use.executions)}${use.more ? "+" : ""}`],
                  ["failed", use.failed ? <span class="tone-bad">{count(use.failed)}</span> : null],
                  ["trees", count(use.roots)],
                  ["events they emitted", count(use.events)],
                  [
                    "functions they called",
                    Object.entries(use.functions).map(([other, times]) => (
                      <span key={other} class="touched">
                        <Link to={urls.function(other)}>
                          <Name text={other} />
                        </Link>{" "}
                        <span class="dim">×{count(times)}</span>
                      </span>
                    )),
                  ],
                  ["first", <Ago key="f" time={use.first_at} />],
                  ["last", <Ago key="l" time={use.last_at} />],
                ]}
              />
              <ReplayAfterFix name={name} number={number} active={active} />
            </>
          )
        }
      </Show>
    </Card>
  );
}

/** Runs again, with the version that is active now, what ran with this one. It is counted before it is asked. */
function ReplayAfterFix({ name, number, active }: { name: string; number: number; active: number | null }) {
  const fixed = active !== null && active !== number;
  return (
    <p>
      <Button
        needs="operate"
        disabled={!fixed}
        why="Activate the version that has the fix first."
        onClick={() => void askBatch({ filter: { function: [name], version: number } }, "replay", true)}
      >
        Replay after the fix…
      </Button>{" "}
      {fixed && <span class="dim">Executions that have ended run again with v{active}.</span>}
    </p>
  );
}

export function DiffPage({ name, range }: { name: string; range: string }) {
  const found = /^(\d+)\.\.(\d+)$/.exec(range);
  const a = Number(found?.[1] ?? 0);
  const b = Number(found?.[2] ?? 0);
  const data = useData<Difference>(found ? `${route("functions", name)}/diff` : null, { a, b });
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  if (!found)
    return <Empty title="This is no pair of versions.">{<More to={urls.function(name)}>The function</More>}</Empty>;
  return (
    <>
      <PageHead
        title={
          <>
            <Name text={name} /> v{a} → v{b}
          </>
        }
        mark={<Mark name="function" tone="run" />}
        waits={isPending(data)}
        actions={
          <>
            <LinkButton to={urls.diff(name, b, a)}>Swap</LinkButton>
            <LinkButton to={urls.function(name, { tab: "versions" })}>Versions</LinkButton>
          </>
        }
      >
        {data.data && (
          <span>
            <Link to={urls.version(name, a)}>v{a}</Link> by <Name text={data.data.a.author} />,{" "}
            <Ago time={data.data.a.created_at} /> · <Link to={urls.version(name, b)}>v{b}</Link> by{" "}
            <Name text={data.data.b.author} />, <Ago time={data.data.b.created_at} />
          </span>
        )}
      </PageHead>
      <div class="page-body stack">
        <Show of={data}>
          {(diff) => (
            <>
              <Diff before={diff.a.source} after={diff.b.source} language="python" labels={[`v${a}`, `v${b}`]} />
              {Object.entries(diff.fields).map(([field, values]) => (
                <Card key={field} title={field.replaceAll("_", " ")}>
                  <Diff
                    before={canonical(values["a"])}
                    after={canonical(values["b"])}
                    language="json"
                    labels={[`v${a}`, `v${b}`]}
                  />
                </Card>
              ))}
              {Object.entries(diff.modules).map(([module, texts]) => (
                <Card
                  key={module}
                  title={<code>{module}</code>}
                  more={
                    <Button
                      kind="plain"
                      onClick={() => {
                        const next = new Set(open);
                        if (!next.delete(module)) next.add(module);
                        setOpen(next);
                      }}
                    >
                      {open.has(module) ? "Hide" : "Show"}
                    </Button>
                  }
                >
                  {open.has(module) ? (
                    <Diff
                      before={texts["a"] ?? ""}
                      after={texts["b"] ?? ""}
                      language="python"
                      labels={[`v${a}`, `v${b}`]}
                    />
                  ) : (
                    <p class="dim">{texts["a"] === null ? "new" : texts["b"] === null ? "left out" : "changed"}</p>
                  )}
                </Card>
              ))}
              {!Object.keys(diff.fields).length && <p class="dim">Nothing else differs.</p>}
            </>
          )}
        </Show>
      </div>
    </>
  );
}
