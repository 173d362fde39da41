// A backtest of a rule: what it would have done with all events of a time, as a job of the server.

import { useState } from "preact/hooks";
import { asProblem, type Problem, route, send } from "../api.ts";
import { useData } from "../data.ts";
import { count, plural, visible } from "../format.ts";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Fault, PayloadText, Pill } from "../parts/small.tsx";
import { canonical } from "../parts/diff.tsx";
import { place, setQuery } from "../router.ts";
import type { Text } from "../rows.ts";
import { shortId } from "../short_ids.ts";
import { urls } from "../urls.ts";
import { essence } from "../trigger_draft.ts";

interface Counted {
  readonly matched: number;
  readonly would_fire: number;
  readonly events_fired: number;
  readonly would_be_suppressed: Readonly<Record<string, number>>;
  readonly still_waiting: number;
  readonly cannot_know: Readonly<Record<string, number>>;
}

interface Result extends Counted {
  readonly events: number;
  readonly seconds: number;
  readonly stored?: Counted;
  readonly difference?: {
    readonly events: number;
    readonly only_draft: readonly string[];
    readonly only_stored: readonly string[];
  };
}

interface Job {
  readonly id: string;
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  readonly since: string;
  readonly total: number | null;
  readonly done: number;
  readonly draft: Readonly<Record<string, unknown>> | null;
  /** The result of the newest part of the time, while the whole is counted. */
  readonly partial: { readonly since: string; readonly result: Result } | null;
  readonly result: Result | null;
  readonly problem: Text | null;
}

const SINCE: Readonly<Record<string, string>> = { "1h": "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const POLL = 0.5;

/** `?backtest=` is the job that is shown; it stays while the rule is changed, and says that it is of another rule. */
export function Backtest({
  name,
  definition,
  valid,
}: {
  name: string | null;
  definition: Readonly<Record<string, unknown>>;
  valid: boolean;
}) {
  const id = place.value.query.get("backtest");
  const [since, setSince] = useState("24h");
  const [error, setError] = useState<Problem | null>(null);
  const [over, setOver] = useState(false);
  const data = useData<Job>(id ? route("backtests", id) : null, {}, over ? {} : { every: POLL });
  const job = data.data;
  const open = job !== null && (job.state === "waiting" || job.state === "running");
  if (job && over === open) setOver(!open);
  const begin = async () => {
    setError(null);
    try {
      const body = { ...(name ? { trigger: name } : {}), draft: definition, since };
      const made = await send<Job>("POST", "/backtests", body, { once: true });
      setOver(false);
      setQuery({ backtest: made.id });
    } catch (fault) {
      setError(asProblem(fault));
    }
  };
  const stop = async () => {
    if (!job) return;
    try {
      data.put(await send<Job>("DELETE", route("backtests", job.id)));
    } catch (fault) {
      setError(asProblem(fault));
    }
  };
  const other = job?.draft && canonical(essence(job.draft)) !== canonical(essence(definition));
  const result = job?.result ?? job?.partial?.result ?? null;
  return (
    <section class="backtest" aria-label="Backtest">
      <div class="backtest-head">
        <h2>Backtest</h2>
        <select
          aria-label="Time of the backtest"
          value={since}
          onChange={(event) => setSince(event.currentTarget.value)}
        >
          {Object.entries(SINCE).map(([value, text]) => (
            <option key={value} value={value}>
              last {text}
            </option>
          ))}
        </select>
        {open ? (
          <Button onClick={() => void stop()}>Stop</Button>
        ) : (
          <Button needs="author" disabled={!valid} why="The rule has a fault." onClick={() => void begin()}>
            Count
          </Button>
        )}
      </div>
      {!job && !error && <p class="dim">Counts what this rule would have done with every event of that time.</p>}
      {error && <Fault error={error} />}
      {data.error && <Fault error={data.error} />}
      {open && (
        <progress
          aria-label="Progress"
          max={job.total ?? undefined}
          value={job.total === null ? undefined : job.done}
        />
      )}
      {open && job.total !== null && (
        <p class="dim">
          {count(job.done)} of {plural(job.total, "event")}
        </p>
      )}
      {job?.state === "failed" && (
        <p class="tone-bad">
          It failed. <PayloadText text={job.problem} />
        </p>
      )}
      {job?.state === "cancelled" && <p class="dim">It was stopped.</p>}
      {result && <ResultText of={result} partial={job?.result ? null : (job?.partial?.since ?? null)} />}
      {other && <p class="tone-warn">The rule has changed since. Count again.</p>}
    </section>
  );
}

function ResultText({ of, partial }: { of: Result; partial: string | null }) {
  const { stored, difference } = of;
  const added = difference?.only_draft ?? [];
  const removed = difference?.only_stored ?? [];
  const stopped = Object.entries(of.would_be_suppressed).filter(([, number]) => number > 0);
  const unknown = Object.entries(of.cannot_know).filter(([, number]) => number > 0);
  return (
    <div role="status">
      <p class="backtest-counts">
        {stored && <span class="dim">{count(stored.would_fire)} → </span>}
        <b>{count(of.would_fire)}</b>
      </p>
      <p>
        {plural(of.would_fire, "execution")} from {plural(of.matched, "match", "matches")} in{" "}
        {plural(of.events, "event")}
        {partial && (
          <>
            {" "}
            since <Ago time={partial} />; the rest is counted
          </>
        )}
        .
      </p>
      {stopped.length > 0 && (
        <p class="tone-warn">
          {stopped
            .map(([reason, number]) => `${count(number)} stopped by ${reason.replaceAll("_", " ")}`)
            .join(", ")}
        </p>
      )}
      {of.still_waiting > 0 && <p class="dim">{plural(of.still_waiting, "match", "matches")} would still wait.</p>}
      {unknown.length > 0 && (
        <p class="dim">
          Not known:{" "}
          {unknown.map(([what, number]) => `${visible(what.replaceAll("_", " "))} ×${count(number)}`).join(", ")}
        </p>
      )}
      {difference && difference.events > 0 && (
        <p>
          Differs for {plural(difference.events, "event")}: <Examples of={removed} sign="−" />{" "}
          <Examples of={added} sign="+" />
        </p>
      )}
    </div>
  );
}

function Examples({ of, sign }: { of: readonly string[]; sign: "+" | "−" }) {
  return (
    <>
      {of.slice(0, 5).map((id) => (
        <Link key={id} to={urls.event(id)} class="example">
          <Pill tone={sign === "+" ? "ok" : "bad"}>
            {sign} {shortId(id)}
          </Pill>
        </Link>
      ))}
      {of.length > 5 && (
        <span class="dim">
          {sign}
          {count(of.length - 5)} more
        </span>
      )}
    </>
  );
}
