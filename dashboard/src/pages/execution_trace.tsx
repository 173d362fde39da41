// The tab of an execution that shows when things happened: what it caused, its attempts, and the functions it called.

import { useMemo } from "preact/hooks";
import { route } from "../api.ts";
import { now } from "../clock.ts";
import { useData } from "../data.ts";
import { isOpen } from "../execution_states.ts";
import { count, duration, instant, plural } from "../format.ts";
import { leftOut } from "../outline_rows.ts";
import { Json } from "../parts/json.tsx";
import { Empty, Facts, FunctionName, Id, Mark, More, Name, PayloadText, Show, State } from "../parts/small.tsx";
import { Trace } from "../parts/trace.tsx";
import { place, setQuery } from "../router.ts";
import type { Attempt, Event, Execution, Span, TraceAnswer } from "../rows.ts";
import { traceRows } from "../trace_rows.tsx";
import { urls } from "../urls.ts";
import { ExecutionBeside, Payload } from "./execution_parts.tsx";
import { LeftOut } from "./left_out.tsx";

export function TraceTab({ row }: { row: Execution }) {
  const live = { topics: [`tree:${row.root_id}`], every: isOpen(row.state) ? 2 : 0 };
  const data = useData<TraceAnswer>(`${route("executions", row.id)}/trace`, {}, live);
  const { outline, attempts = [], spans = [] } = data.data ?? {};
  const rows = useMemo(
    () => traceRows(outline?.nodes ?? [], row.id, attempts, spans),
    [data.data, row.id],
  );
  const at = place.value.query.get("at") ?? row.id;
  const open = rows.some((one) => one.start !== null && one.end === null);
  return (
    <div class="split trace-split" role="tabpanel" id="panel-trace" aria-labelledby="tab-trace">
      <div class="split-left">
        <Show of={data}>
          {({ outline: tree }) => (
            <>
              <Trace
                rows={rows}
                label="Trace"
                selected={at}
                now={open ? now.value : 0}
                onSelect={(one) => setQuery({ at: one.id === row.id ? null : one.id })}
              />
              {tree.truncated && (
                <p class="table-note">
                  {plural(tree.nodes.length, "line")} of {count(tree.total)}.{" "}
                  <More to={urls.tree(row.root_id, { at: row.id })}>the whole tree</More>
                </p>
              )}
              <LeftOut number={leftOut(tree.nodes)} to={urls.tree(row.root_id, { at: row.id })} />
            </>
          )}
        </Show>
      </div>
      <div class="split-right">
        {(outline || at === row.id) && (
          <TraceDetail
            at={at}
            row={row}
            attempts={attempts}
            spans={spans}
            isEvent={outline?.nodes.some((node) => node.id === at && node.kind === "event") ?? false}
          />
        )}
      </div>
    </div>
  );
}

/** Input, output and error of the selected row. */
function TraceDetail({ at, row, attempts, spans, isEvent }: {
  at: string;
  isEvent: boolean;
  row: Execution;
  attempts: readonly Attempt[];
  spans: readonly Span[];
}) {
  if (at.startsWith("span:")) {
    const span = spans.find((one) => `span:${one.fence}.${one.seq}` === at);
    if (!span) return <Empty title="This call is gone." />;
    return (
      <div class="beside">
        <h2>
          <Mark name="function" /> <FunctionName name={span.function} version={span.version} />
        </h2>
        <Facts of={[["Took", duration(span.duration_seconds)], ["Began", `after ${duration(span.offset_seconds)}`]]} />
        <h3>Input</h3>
        <Json value={span.input} label="Input" />
        {span.error ? (
          <p class="tone-bad">
            {span.error.type}: <PayloadText text={span.error.message} />
          </p>
        ) : (
          <>
            <h3>Output</h3>
            <Json value={span.output} label="Output" />
          </>
        )}
      </div>
    );
  }
  if (at.startsWith("attempt:")) {
    const attempt = attempts.find((one) => `attempt:${one.fence}` === at);
    if (!attempt) return <Empty title="This attempt is gone." />;
    return <AttemptFacts of={attempt} row={row} />;
  }
  const uuid = /^[0-9a-f-]{36}$/.test(at);
  if (at === row.id) return <OwnFacts row={row} attempts={attempts} />;
  if (isEvent) return <EventBeside key={at} id={at} />;
  return uuid ? <ExecutionBeside key={at} id={at} /> : <Empty title="Select a line." />;
}

function AttemptFacts({ of, row }: { of: Attempt; row: Execution }) {
  return (
    <div class="beside">
      <h2>
        <State state={of.outcome ?? "running"} bare /> Attempt {of.number}
      </h2>
      <Facts
        of={[
          ["Began", instant(of.started_at, false, true)],
          ["Took", duration(of.duration_seconds)],
          ["Waited", duration(of.queued_seconds ?? of.waited_seconds)],
          ["Worker", <span class="mono">{of.worker_id}</span>],
          ["Isolation", of.isolation && `tier ${of.isolation}`],
        ]}
      />
      {of.error && (
        <p class="tone-bad">
          {of.error.type}: <PayloadText text={of.error.message} />
        </p>
      )}
      <More to={urls.execution(row.id, { tab: "log", attempt: of.fence })}>its log</More>
      {of.sandbox && (
        <details>
          <summary>Sandbox</summary>
          <Json value={of.sandbox} label="Sandbox" />
        </details>
      )}
    </div>
  );
}

function OwnFacts({ row, attempts }: { row: Execution; attempts: readonly Attempt[] }) {
  const last = attempts.at(-1);
  return (
    <div class="beside">
      <h2>
        <FunctionName name={row.function} version={row.version} />
      </h2>
      <Facts
        of={[
          ["Id", <Id id={row.id} />],
          ["Created", instant(row.created_at, false, true)],
          ["Started", instant(row.started_at, false, true)],
          ["Ended", instant(row.finished_at, false, true)],
          ["Queued", duration(row.queued_seconds)],
          ["Ran", duration(row.run_seconds)],
          ["Attempts", attempts.length > 1 && `${attempts.length} of ${row.max_attempts}`],
          ["Worker", last?.worker_id && <span class="mono">{last.worker_id}</span>],
          ["Isolation", last?.isolation && `tier ${last.isolation}`],
        ]}
      />
      <Payload title="Input" of={row} part="input" size={row.input_bytes} />
      {row.state === "succeeded" && <Payload title="Result" of={row} part="result" size={row.result_bytes} />}
    </div>
  );
}

function EventBeside({ id }: { id: string }) {
  const event = useData<Event>(route("events", id));
  return (
    <div class="beside">
      <Show of={event}>
        {(row) => (
          <>
            <h2>
              <Mark name="event" /> <Name text={row.type} /> <More to={urls.event(id)}>open</More>
            </h2>
            <Json value={row.data} root="data" label="Data" />
          </>
        )}
      </Show>
    </div>
  );
}
