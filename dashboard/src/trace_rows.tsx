// Rows of the waterfall from the outline of an execution, its attempts and the calls inside of them.

import { FunctionName, Mark, Name, PayloadText, State } from "./parts/small.tsx";
import { Link } from "./parts/link.tsx";
import { isBad } from "./execution_states.ts";
import { lookOf } from "./parts/marks.ts";
import { nodeHref } from "./parts/outline.tsx";
import type { TraceRow } from "./parts/trace.tsx";
import { forestOf, outlineRows } from "./outline_rows.ts";
import type { Attempt, OutlineNode, Span } from "./rows.ts";

const time = (text: string | null) => (text === null ? null : Date.parse(text));

/** The rows: nodes in the order of reading; attempts and calls below the execution `of`. */
export function traceRows(
  nodes: readonly OutlineNode[],
  of: string,
  attempts: readonly Attempt[],
  spans: readonly Span[],
): readonly TraceRow[] {
  const rows: TraceRow[] = [];
  for (const { node, depth } of outlineRows(forestOf(nodes), new Set())) {
    rows.push(nodeRow(node, depth));
    if (node.id !== of) continue;
    const several = attempts.length > 1;
    for (const attempt of attempts) {
      const id = `attempt:${attempt.fence}`;
      if (several) rows.push(attemptRow(attempt, id, node.id, depth + 1));
      rows.push(...spanRows(attempt, spans, several ? id : node.id, depth + (several ? 2 : 1)));
    }
  }
  return rows;
}

function nodeRow(node: OutlineNode, depth: number): TraceRow {
  const start = time(node.created_at ?? node.start);
  const running =
    node.kind === "execution" && node.start !== null && node.state !== "queued"
      ? start !== null && node.queued_seconds !== null
        ? start + node.queued_seconds * 1000
        : time(node.start)
      : null;
  const ran = running !== null && node.run_seconds !== null ? running + node.run_seconds * 1000 : null;
  const end = time(node.finished_at) ?? ran;
  const to = nodeHref(node);
  const stopped = node.kind === "suppressed" || node.kind === "joined";
  const name = <FunctionName name={node.name} version={node.version} />;
  return {
    id: node.id,
    depth,
    parent: node.parent,
    start,
    running,
    end: node.kind === "execution" ? end : start,
    tone: node.kind === "execution" ? (node.state ? lookOf(node.state).tone : "off") : "event",
    label: (
      <>
        {node.kind === "execution" || node.kind === "group" ? (
          <State state={node.state} bare />
        ) : (
          <Mark
            name={node.kind === "event" ? "event" : stopped ? (node.kind as "joined") : "nomatch"}
            label={node.kind}
            tone={stopped ? "warn" : "off"}
          />
        )}
        {to ? (
          <Link to={to} tabIndex={-1}>
            {name}
          </Link>
        ) : (
          name
        )}
        {node.count !== null && <span class="pill">×{node.count}</span>}
        {stopped && <span class="tone-warn">{node.reason ?? node.kind}</span>}
        {node.kind === "event" && (
          <span class="dim">
            <PayloadText text={node.about} />
          </span>
        )}
      </>
    ),
  };
}

function attemptRow(attempt: Attempt, id: string, parent: string, depth: number): TraceRow {
  const running = Date.parse(attempt.started_at);
  const outcome = attempt.outcome ?? "running";
  return {
    id,
    depth,
    parent,
    start: running - (attempt.queued_seconds ?? attempt.waited_seconds ?? 0) * 1000,
    running,
    end: time(attempt.ended_at),
    tone: lookOf(outcome).tone,
    label: (
      <>
        <State state={outcome} bare />
        <span>attempt {attempt.number}</span>
        {attempt.error?.type && <span class={isBad(outcome) ? "tone-bad" : "dim"}>{attempt.error.type}</span>}
      </>
    ),
  };
}

function spanRows(attempt: Attempt, spans: readonly Span[], parent: string, depth: number): TraceRow[] {
  const begin = Date.parse(attempt.started_at);
  const own = spans.filter((span) => span.fence === attempt.fence).sort((a, b) => a.seq - b.seq);
  const depths = new Map<number, number>();
  return own.map((span) => {
    const level = span.parent_seq === null ? depth : (depths.get(span.parent_seq) ?? depth) + 1;
    depths.set(span.seq, level);
    const start = begin + span.offset_seconds * 1000;
    return {
      id: `span:${span.fence}.${span.seq}`,
      depth: level,
      parent: span.parent_seq === null ? parent : `span:${span.fence}.${span.parent_seq}`,
      start,
      running: start,
      end: span.duration_seconds === null ? time(attempt.ended_at) : start + span.duration_seconds * 1000,
      tone: span.error ? "bad" : "ok",
      thin: true,
      label: (
        <>
          <Mark name="function" label={span.error ? "failed call" : "call"} tone={span.error ? "bad" : "off"} />
          <Name text={span.function} /> <span class="dim">v{span.version}</span>
        </>
      ),
    };
  });
}
