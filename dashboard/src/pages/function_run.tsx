// Runs a function with a form made from its schema.

import { useState } from "preact/hooks";
import type { Function as FunctionDetail } from "../api.gen.ts";
import { asProblem, type Problem, route, send } from "../api.ts";
import { isPending, useData } from "../data.ts";
import { duration } from "../format.ts";
import { initial, type Schema } from "../json_form.ts";
import { Form } from "../parts/form.tsx";
import { Json } from "../parts/json.tsx";
import { Button } from "../parts/link.tsx";
import { Fault, Id, More, Name, PayloadText, Skeleton, State } from "../parts/small.tsx";
import type { Execution, ExecutionRow } from "../rows.ts";
import { urls } from "../urls.ts";
import { hasEnded } from "./execution_actions.ts";

interface Props {
  readonly of: FunctionDetail;
  readonly version?: number;
  /** An execution whose input is filled in, to be edited. */
  readonly from?: string | null;
}

/** Runs the function with an input that is made or edited here. */
export function RunPanel({ from, ...props }: Props) {
  const input = useData<unknown>(from ? route("executions", from, "input") : null);
  if (!from) return <Panel {...props} />;
  if (isPending(input)) return <Skeleton rows={4} />;
  return (
    <>
      {input.error && <Fault error={input.error} retry={input.reload} />}
      <Panel {...props} {...(input.data === null ? {} : { given: input.data, from })} />
    </>
  );
}

function Panel({ of, version, given, from }: Props & { given?: unknown }) {
  const schema = (of.input_schema ?? true) as Schema;
  const [input, setInput] = useState<unknown>(() => given ?? initial(schema, schema) ?? {});
  const [error, setError] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [started, setStarted] = useState<string | null>(null);
  const away =
    of.state === "disabled"
      ? "The function is disabled."
      : of.active === null && !version
        ? "No version is active."
        : null;
  const run = async () => {
    if (busy || away) return;
    setBusy(true);
    setError(null);
    try {
      const body = { function: of.name, input: input ?? {}, ...(version ? { version } : {}) };
      const made = await send<ExecutionRow>("POST", "/executions", body, { once: true });
      setStarted(made.id);
    } catch (fault) {
      setError(asProblem(fault));
    }
    setBusy(false);
  };
  // What has no field of its own is shown as a whole.
  const placed = new Set(fieldPointers(schema));
  const homeless = error && !error.faults.some((fault) => placed.has(fault.pointer.split("/")[1] ?? ""));
  return (
    <aside class="card run-panel" aria-label="Run">
      <h2>Run{version ? ` v${version}` : ""}</h2>
      {from && (
        <p class="dim">
          With the input of <Id id={from} to={urls.execution(from)} />
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <Form
          schema={schema}
          value={input}
          onChange={setInput}
          faults={error?.faults ?? []}
          label={`Input of ${of.name}`}
        />
        {error &&
          (homeless ? (
            <Fault error={error} />
          ) : (
            <p class="field-fault" role="alert">
              {error.what}
            </p>
          ))}
        <Button
          kind="primary"
          type="submit"
          needs="operate"
          busy={busy}
          disabled={away !== null}
          {...(away ? { why: away } : {})}
        >
          Run
        </Button>
        {away && <p class="dim">{away}</p>}
      </form>
      {started && <Started id={started} />}
    </aside>
  );
}

function fieldPointers(schema: Schema): string[] {
  return typeof schema === "boolean" ? [] : Object.keys(schema.properties ?? {});
}

function Started({ id }: { id: string }) {
  const [over, setOver] = useState(false);
  // The stream tells of changes from now on; what ended before it was open is asked for.
  const data = useData<Execution>(
    route("executions", id),
    {},
    { topics: [`execution:${id}`], ...(over ? {} : { every: 1 }) },
  );
  const row = data.data;
  if (row && hasEnded(row) && !over) setOver(true);
  const result = useData<unknown>(row && row.state === "succeeded" ? `${route("executions", id)}/result` : null);
  return (
    <div class="started" role="status">
      {row && (
        <p>
          <State state={row.state} /> <span class="dim">{duration(row.run_seconds)}</span>{" "}
          <More to={urls.execution(id)}>execution</More>
        </p>
      )}
      {row && hasEnded(row) && row.error && (
        <p class="tone-bad">
          <Name text={row.error_type} />: <PayloadText text={row.error.message} />
        </p>
      )}
      {row?.state === "succeeded" && result.data !== null && <Json value={result.data} label="Result" />}
    </div>
  );
}
