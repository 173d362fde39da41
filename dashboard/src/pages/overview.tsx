// The overview: is anything wrong now?

import { useData } from "../data.ts";
import { BAD_STATES } from "../execution_states.ts";
import { count, duration, percent, plural } from "../format.ts";
import { Link } from "../parts/link.tsx";
import { Ago, Card, Copy, Empty, FunctionName, Mark, More, Name, PageHead, Show } from "../parts/small.tsx";
import type { MarkName } from "../parts/marks.ts";
import { minuteLabel, Spark } from "../parts/spark.tsx";
import type { Overview } from "../rows.ts";
import { ownHref, urls } from "../urls.ts";

const MARK: Readonly<Record<string, { mark: MarkName; tone: string }>> = {
  questions: { mark: "approval", tone: "hold" },
  approvals: { mark: "secret", tone: "hold" },
  stuck_sagas: { mark: "retrying", tone: "bad" },
  quarantined_events: { mark: "event", tone: "bad" },
  open_breakers: { mark: "suppressed", tone: "warn" },
  failing_triggers: { mark: "trigger", tone: "bad" },
  dead: { mark: "dead", tone: "bad" },
  failed: { mark: "failed", tone: "bad" },
  failed_sources: { mark: "warning", tone: "warn" },
};

const sum = (values: readonly (number | null)[]) => values.reduce<number>((all, one) => all + (one ?? 0), 0);
const last = (values: readonly (number | null)[]) => values.filter((one) => one !== null).at(-1) ?? null;

export function OverviewPage() {
  const data = useData<Overview>("/overview", {}, { every: 5 });
  return (
    <>
      <PageHead title="Overview" />
      <div class="page-body">
        <Show of={data}>{(row) => (row.is_new ? <Welcome /> : <Now of={row} />)}</Show>
      </div>
    </>
  );
}

function Now({ of }: { of: Overview }) {
  const { series, workers, verification } = of;
  return (
    <div class="stack">
      <section aria-label="Needs you" class="needs">
        {of.needs_you.length === 0 ? (
          <p class="calm">
            <Mark name="succeeded" tone="ok" /> Nothing needs you.
          </p>
        ) : (
          <ul>
            {of.needs_you.map((one) => {
              const to = ownHref(one.link_path);
              const look = MARK[one.kind] ?? { mark: "warning" as const, tone: "warn" };
              const text = (
                <>
                  <Mark name={look.mark} tone={look.tone} /> <b>{count(one.count)}</b> {one.what}
                </>
              );
              return <li key={one.kind}>{to ? <Link to={to}>{text} →</Link> : text}</li>;
            })}
          </ul>
        )}
      </section>
      <section class="sparks" aria-label="The last hour">
        {series.events && (
          <Series title="Events" value={count(sum(series.events))} values={series.events} unit={count} />
        )}
        <Series
          title="Succeeded"
          value={count(sum(series.succeeded))}
          values={series.succeeded}
          unit={count}
          tone="ok"
        />
        <Series
          title="Failed"
          value={count(sum(series.failed))}
          values={series.failed}
          unit={count}
          tone={sum(series.failed) ? "bad" : "off"}
        />
        <Series
          title="Queue wait, p95"
          value={duration(last(series.queue_p95)) || "–"}
          values={series.queue_p95}
          unit={(value) => duration(value)}
        />
        {series.router_lag && (
          <Series
            title="Router lag"
            value={duration(last(series.router_lag)) || "–"}
            values={series.router_lag}
            unit={(value) => duration(value)}
          />
        )}
      </section>
      <div class="two-columns">
        <Card
          title="Failing functions, 24 h"
          more={<More to={urls.executions({ state: BAD_STATES, since: "24h" })}>all failures</More>}
        >
          {of.failing.length === 0 && <p class="dim">No function has failed.</p>}
          <ul class="lines wide">
            {of.failing.map((one) => (
              <li key={one.function}>
                <Link to={urls.function(one.function)} class="grow">
                  <FunctionName name={one.function} version={one.version} />
                </Link>
                <Link to={urls.executions({ function: one.function, state: BAD_STATES, since: "24h" })}>
                  {count(one.failures)}
                </Link>
                <span class="dim number-column">{percent(one.failures, one.runs)}</span>
                <Spark
                  values={one.spark}
                  tone="bad"
                  sentence={`${plural(one.failures, "failure")} of ${one.function} in 24 hours`}
                  unit={count}
                  labels={(at) => `${one.spark.length - at} h ago`}
                />
              </li>
            ))}
          </ul>
        </Card>
        <Card title="What guards stopped, 24 h" more={<More to={urls.suppressions()}>all</More>}>
          {of.stopped.length === 0 && <p class="dim">No match was stopped.</p>}
          <ul class="lines wide">
            {of.stopped.map((one) => (
              <li key={`${one.trigger}${one.reason}`}>
                <Mark name="suppressed" tone="warn" />
                <Link to={urls.trigger(one.trigger)} class="grow">
                  <Name text={one.trigger} />
                </Link>
                <span class="tone-warn">{one.reason}</span>
                <span>{count(one.count)}</span>
                <span class="dim">
                  <Ago time={one.last_at} />
                </span>
                {one.root_id && <More to={urls.tree(one.root_id)}>tree</More>}
              </li>
            ))}
          </ul>
        </Card>
      </div>
      <p class="foot">
        <span>
          Workers {workers.alive} · slots {workers.busy}/{workers.slots}
          {Object.keys(workers.tiers).length > 0 && ` · tier ${Object.keys(workers.tiers).sort().join(", ")}`}
        </span>
        {verification && (
          <span class={verification.ok < verification.of ? "tone-bad" : undefined}>
            {verification.checked_at ? (
              <>
                Invariants: {verification.ok} of {verification.of} hold, checked <Ago time={verification.checked_at} />
              </>
            ) : (
              "Invariants were not checked yet"
            )}
          </span>
        )}
        <More to={urls.health()}>Health</More>
      </p>
    </div>
  );
}

function Series({ title, value, values, unit, tone }: {
  title: string;
  value: string;
  values: readonly (number | null)[];
  unit: (value: number) => string;
  tone?: string;
}) {
  return (
    <div class="series card">
      <span class="dim">{title}</span>
      <span class={`figure ${tone ? `tone-${tone}` : ""}`}>{value}</span>
      <Spark
        large
        values={values}
        unit={unit}
        labels={minuteLabel(values.length)}
        sentence={`${title} in the last hour: ${value}`}
        {...(tone ? { tone } : {})}
      />
    </div>
  );
}

const STEPS = [
  { text: "Store a function", command: "functory function add hello.py" },
  {
    text: "Let events start it",
    command: `functory trigger add on-hello --on '{"type": ["demo.hello"]}' --function hello`,
  },
  { text: "Emit an event", command: "functory event emit demo.hello" },
];

function Welcome() {
  return (
    <Empty title="Nothing has happened yet.">
      <ol class="steps">
        {STEPS.map((step) => (
          <li key={step.command}>
            <span>{step.text}</span>
            <Copy text={step.command} what="command">
              <code>{step.command}</code>
            </Copy>
          </li>
        ))}
      </ol>
      <p class="links">
        <More to={urls.newFunction()}>New function</More>
        <More to={urls.newTrigger()}>New trigger</More>
        <More to={urls.events()}>Emit an event</More>
      </p>
    </Empty>
  );
}
