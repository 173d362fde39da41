// One execution: what happened in it, and why.

import { route } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { isOpen } from "../execution_states.ts";
import { duration } from "../format.ts";
import { functionVersion } from "../function_versions.ts";
import { useKeys } from "../keys.ts";
import { Json } from "../parts/json.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import {
  Ago, currentTab, Facts, FunctionName, More, Name, PageHead, Pill, Show, State, type Tab, tabKeys, TabPanel, Tabs,
} from "../parts/small.tsx";
import { go, setQuery } from "../router.ts";
import type { Execution } from "../rows.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { askCancel, canCancel, canRetry, hasEnded, runAgain } from "./execution_actions.ts";
import { ErrorCard } from "./execution_error.tsx";
import { LogTab } from "./execution_log.tsx";
import { Cause, Payload } from "./execution_parts.tsx";
import { modelsTab } from "./agents.ts";
import { TraceTab } from "./execution_trace.tsx";
import { WhyTab } from "./execution_why.tsx";

const TABS: readonly Tab[] = [
  { id: "trace", title: "Trace" },
  { id: "log", title: "Log" },
  { id: "io", title: "I/O" },
  { id: "why", title: "Why" },
  { id: "models", title: "Models" },
];

// What it asked of language models. Few executions have asked one: its tab is in the chunk of models.
const ModelsTab = modelsTab();

export function ExecutionPage({ id }: { id: string }) {
  const data = useData<Execution>(
    route("executions", id),
    {},
    { topics: [`execution:${id}`], every: 2, polled: (one) => isOpen(one.state) },
  );
  const row = data.data;
  const tab = currentTab(TABS);
  const name = row?.function ?? "the execution";
  const operates = row !== null && can("operate");
  const edit = () => row && go(urls.function(row.function, { tab: "code", input: id }));
  useKeys("Execution", [
    { keys: "r", label: "Retry", run: () => void runAgain(id, "retry"), when: operates && canRetry(row) },
    { keys: "R", label: "Replay", run: () => void runAgain(id, "replay"), when: operates && hasEnded(row) },
    { keys: "c", label: "Cancel", run: () => askCancel(id, name, data.reload), when: operates && canCancel(row) },
    { keys: "e", label: "Edit the input and run", run: () => void edit(), when: operates },
    { keys: "T", label: "Tree", run: () => row && go(urls.tree(row.root_id, { at: id })), when: row !== null },
    ...tabKeys(TABS),
    { keys: "w", label: "Why", run: () => setQuery({ tab: "why" }), when: tab !== "log" },
  ]);
  return (
    <>
      <PageHead
        title={row ? <FunctionName name={row.function} version={row.version} /> : "Execution"}
        waits={isPending(data)}
        mark={row && <State state={row.state} />}
        actions={row && <Actions row={row} data={data} edit={edit} />}
        note={row && <Cause row={row} />}
      >
        {row && (
          <>
            {row.queued_seconds !== null && <span>{duration(row.queued_seconds)} queued</span>}
            {row.run_seconds !== null && <span>{duration(row.run_seconds)}</span>}
            {row.attempt > 1 && (
              <span>
                attempt {row.attempt}/{row.max_attempts}
              </span>
            )}
            {row.waiting_for_slot && <Pill tone="hold">waits for a slot</Pill>}
            {row.cancel_requested_at && canCancel(row) && <Pill tone="warn">is being cancelled</Pill>}
            <Ago time={row.created_at} />
          </>
        )}
      </PageHead>
      {row?.resolved_by && (
        <p class="notice wide">
          Resolved by <More to={urls.execution(row.resolved_by)}>a later execution</More>
        </p>
      )}
      {row?.replay_of && (
        <p class="notice wide">
          This is a run again of <More to={urls.execution(row.replay_of)}>an earlier execution</More>
        </p>
      )}
      {row?.cancelled_by && <CancelledBy row={row} by={row.cancelled_by} />}
      {data.data === null && <Show of={data}>{() => null}</Show>}
      {row && (
        <>
          {row.error && <ErrorCard row={row} />}
          <Tabs tabs={TABS} current={tab} label="Execution" />
          {tab === "trace" && <TraceTab row={row} />}
          {tab === "log" && <LogTab row={row} />}
          {tab === "io" && <IoTab row={row} />}
          {tab === "why" && <WhyTab row={row} reload={data.reload} />}
          {tab === "models" && <ModelsTab row={row} />}
        </>
      )}
    </>
  );
}

/** Who cancelled it; its parent is a link. */
function CancelledBy({ row, by }: { row: Execution; by: string }) {
  const parent = row.parent_id !== null && by === `execution ${row.parent_id}`;
  return (
    <p class="notice wide">
      {canCancel(row) ? "Is being cancelled" : "Cancelled"} by{" "}
      {parent && row.parent_id ? (
        <>
          its parent, which ended without success:{" "}
          <Link to={urls.execution(row.parent_id)}>
            <Name text={row.cause_name ?? "an execution"} />
          </Link>
        </>
      ) : (
        <Name text={by} />
      )}
    </p>
  );
}

function Actions({ row, data, edit }: { row: Execution; data: Data<Execution>; edit: () => void }) {
  return (
    <>
      {canRetry(row) && (
        <Button needs="operate" keys="r" kind="primary" onClick={() => void runAgain(row.id, "retry")}>
          Retry
        </Button>
      )}
      {hasEnded(row) && (
        <Button needs="operate" keys="R" onClick={() => void runAgain(row.id, "replay")}>
          Replay
        </Button>
      )}
      {canCancel(row) && (
        <Button needs="operate" keys="c" onClick={() => askCancel(row.id, row.function, data.reload)}>
          Cancel
        </Button>
      )}
      <Button needs="operate" keys="e" onClick={edit}>
        Edit & run
      </Button>
      <LinkButton to={urls.tree(row.root_id, { at: row.id })} keys="T">
        Tree
      </LinkButton>
    </>
  );
}

function IoTab({ row }: { row: Execution }) {
  const versions = (row.versions ?? []).map(functionVersion);
  return (
    <TabPanel id="io">
      <div class="two-columns">
        <div class="stack">
          <Payload title="Input" of={row} part="input" size={row.input_bytes} heading="h2" />
        </div>
        <div class="stack">
          {row.state === "succeeded" ? (
            <Payload title="Result" of={row} part="result" size={row.result_bytes} heading="h2" />
          ) : (
            <>
              <h2>Result</h2>
              <p class="dim">{hasEnded(row) ? "There is none: it did not succeed." : "It has not ended."}</p>
            </>
          )}
          <h2>Facts</h2>
          <Facts
            of={[
              ["Idempotency key", row.idempotency_key && <code>{row.idempotency_key}</code>],
              ["Result kind", row.result_kind],
              ["Priority", row.priority !== 0 && row.priority],
              ["Expires", row.expires_at && <Ago time={row.expires_at} />],
              [
                "Versions",
                versions.length > 0 && (
                  <ul>
                    {versions.map(({ function: name, version }) => (
                      <li key={`${name}@${version}`}>
                        <Link to={version === null ? urls.function(name) : urls.version(name, version)}>
                          <FunctionName name={name} version={version} />
                        </Link>
                      </li>
                    ))}
                  </ul>
                ),
              ],
            ]}
          />
          {Array.isArray(row.warnings) && row.warnings.length > 0 && (
            <>
              <h2>Warnings</h2>
              <Json value={row.warnings} label="Warnings" />
            </>
          )}
        </div>
      </div>
    </TabPanel>
  );
}
