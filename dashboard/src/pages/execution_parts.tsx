// Parts of an execution that several pages show: its cause as a sentence, its input and result, and all of it beside a
// list.

import type { ComponentChildren } from "preact";
import { downloadPath, route } from "../api.ts";
import { useData } from "../data.ts";
import { causeText, isOpen } from "../execution_states.ts";
import { bytes, duration, plural } from "../format.ts";
import type { ReadJson } from "../json_lines.ts";
import { ReadPayload } from "../parts/json.tsx";
import { Link } from "../parts/link.tsx";
import { Ago, Facts, FunctionName, Mark, More, Name, PayloadText, RedactedChip, Show, State } from "../parts/small.tsx";
import type { Execution } from "../rows.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { readPayload } from "../workers.ts";

/** The sentence of the cause, with links. */
export function Cause({ row }: { row: Execution }) {
  const { event } = row;
  const parts: ComponentChildren[] = [];
  if (row.trigger)
    parts.push(
      <>
        started by <Mark name="trigger" />{" "}
        <Link to={urls.trigger(row.trigger)}>
          <Name text={row.trigger} />
        </Link>
        {row.trigger_version !== null && ` v${row.trigger_version}`}
      </>,
    );
  else if (row.cause === "step" || row.cause === "tool")
    parts.push(<Link to={urls.runs({ root: row.root_id })}>{causeText(row.cause)}</Link>);
  else if (row.parent_id)
    parts.push(
      <>
        called by <Link to={urls.execution(row.parent_id)}><Name text={row.cause_name ?? "an execution"} /></Link>
      </>,
    );
  else parts.push(causeText(row.cause));
  if (row.event_id)
    parts.push(
      <>
        {" "}
        on <Mark name="event" />{" "}
        <Link to={urls.event(row.event_id)}>{event ? <Name text={event.type} /> : "an event"}</Link>
        {event?.subject && (
          <>
            {" "}
            <PayloadText text={event.subject} />
          </>
        )}
        {row.events.length > 1 && ` and ${plural(row.events.length - 1, "other event")}`}
        {event?.cause_execution_id && (
          <>
            , which <Link to={urls.execution(event.cause_execution_id)}>an execution</Link> emitted
          </>
        )}
        {event && !event.cause_execution_id && (
          <>
            {" "}
            from <Name text={event.source} />
          </>
        )}
      </>,
    );
  return <p>{parts}</p>;
}

/** Input or result: fetched by itself, because lists and details carry none. */
export function Payload({ title, of, part, size, heading: Heading = "h3" }: {
  title: string;
  of: Execution;
  part: "input" | "result";
  size: number | null;
  heading?: "h2" | "h3";
}) {
  const allowed = can("payload:read");
  // A function that returned None has no result to fetch.
  const none = part === "result" && size === null;
  const data = useData<ReadJson>(allowed && !none ? route("executions", of.id, part) : null, {}, { read: readPayload });
  if (!allowed)
    return (
      <>
        <Heading>{title}</Heading>
        <RedactedChip needs="payload:read" />
      </>
    );
  if (none)
    return (
      <>
        <Heading>{title}</Heading>
        <p class="dim">It returned nothing.</p>
      </>
    );
  return (
    <>
      <Heading>
        {title} <span class="dim">{bytes(size)}</span>
      </Heading>
      <Show of={data}>
        {(read) => (
          <ReadPayload
            key={of.state}
            of={read}
            label={title}
            download={downloadPath(route("executions", of.id, part))}
          />
        )}
      </Show>
    </>
  );
}

/** An execution beside its list. */
export function ExecutionBeside({ id }: { id: string }) {
  const data = useData<Execution>(
    route("executions", id),
    {},
    { topics: [`execution:${id}`], every: 2, polled: (one) => isOpen(one.state) },
  );
  return (
    <div class="beside">
      <Show of={data}>
        {(row) => (
          <>
            <h2>
              <State state={row.state} bare /> <FunctionName name={row.function} version={row.version} />{" "}
              <More to={urls.execution(id)}>open</More>
            </h2>
            {row.error && (
              <p class="tone-bad">
                {row.error.type}: <PayloadText text={row.error.message} />
              </p>
            )}
            <Facts
              of={[
                ["Started by", <Cause row={row} />],
                ["Queued", duration(row.queued_seconds)],
                ["Ran", duration(row.run_seconds)],
                ["Created", <Ago time={row.created_at} />],
              ]}
            />
            <Payload title="Input" of={row} part="input" size={row.input_bytes} />
            {row.state === "succeeded" && <Payload title="Result" of={row} part="result" size={row.result_bytes} />}
          </>
        )}
      </Show>
    </div>
  );
}
