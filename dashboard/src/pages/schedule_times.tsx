// The times of a schedule: the next ones, those that became events, a year of them, and backfill.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { BackfillAnswer, NextTime, Source, Tick, Ticks, TriggeredSchedule } from "../api.gen.ts";
import { action, asProblem, type Problem, route, send } from "../api.ts";
import { now } from "../clock.ts";
import { useData } from "../data.ts";
import { count, instant, plural } from "../format.ts";
import { ask, Dialog } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Card, Empty, Fault, Mark, More, Name, Pill, Show, State } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { REASONS } from "../reasons.ts";
import { urls } from "../urls.ts";
import { clockChanges, dateOf, type Day, haveSeconds, localText, weeksOf } from "../year_strip.ts";

const OVERLAP = ["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"];

/** Times as a table: in the zone of the schedule, and in that of the reader. */
export function TimesTable({ times, zone }: { times: readonly NextTime[]; zone: string }) {
  const mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const exact = haveSeconds(times.map((one) => one.local_time));
  return (
    <table class="plain-table">
      <thead>
        <tr>
          <th scope="col">{zone}</th>
          {mine !== zone && <th scope="col">your time</th>}
          <th scope="col" class="end">
            when
          </th>
        </tr>
      </thead>
      <tbody>
        {times.map((one) => (
          <tr key={one.fire_time}>
            <td>{localText(one.local_time, exact)}</td>
            {mine !== zone && <td class="dim">{instant(one.fire_time)}</td>}
            <td class="end">
              <Ago time={one.due} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** How many times and ticks the year has at first, and on demand: a thousand are more than 120 kB. */
const TIMES = 100;
const MORE_TIMES = 1000;
const NEXT = 3;

/** The times to come. The next times and the year share the first ones. */
const useTimes = (name: string, limit: number) =>
  useData<readonly NextTime[]>(`${route("sources", "schedule", name)}/next`, { count: limit }, { every: 60 });

export function NextTimes({ of }: { of: Source }) {
  const data = useTimes(of.name, TIMES);
  return (
    <Card title={of.state === "paused" ? "Next times, if it were not paused" : "Next times"}>
      <Show of={data} rows={3}>
        {(times) => {
          const next = times.filter((one) => Date.parse(one.due) > now.value).slice(0, NEXT);
          return next.length ? (
            <TimesTable times={next} zone={of.timezone ?? "UTC"} />
          ) : (
            <p class="dim">No time is left.</p>
          );
        }}
      </Show>
    </Card>
  );
}

export function TicksCard({ name }: { name: string }) {
  const data = useData<Ticks>(`${route("sources", "schedule", name)}/ticks`, { limit: 20 }, { every: 3 });
  return (
    <Card title="Newest ticks">
      <Show of={data} rows={4}>
        {(ticks) => (
          <>
            {ticks.missed > 0 && (
              <p class="notice">{plural(ticks.missed, "time")} passed without an event: a pause, or a downtime.</p>
            )}
            {ticks.items.length === 0 && <p class="dim">It has not ticked yet.</p>}
            <ul class="lines wide">
              {ticks.items.map((tick) => (
                <TickLine
                  key={`${tick.fire_time}${tick.origin}`}
                  of={tick}
                  exact={haveSeconds(ticks.items.map((one) => one.local_time))}
                />
              ))}
            </ul>
          </>
        )}
      </Show>
    </Card>
  );
}

function TickLine({ of, exact }: { of: Tick; exact: boolean }) {
  return (
    <li>
      <State state={of.reason ? "suppressed" : of.execution_id ? "fired" : "nomatch"} bare />
      <span class="grow">
        <Link to={urls.event(of.event_id)}>{localText(of.local_time, exact)}</Link>{" "}
        <span class="dim">
          <Ago time={of.fire_time} />
        </span>
      </span>
      {of.origin !== "calendar" && <Pill>{of.origin}</Pill>}
      {of.reason && (
        <span class="tone-warn" title={REASONS[of.reason]?.remedy}>
          {of.reason.replaceAll("_", " ")}
          {REASONS[of.reason] && `: ${REASONS[of.reason]?.what}`}
        </span>
      )}
      {of.execution_id ? (
        <More to={urls.execution(of.execution_id)}>execution</More>
      ) : (
        !of.reason && <span class="dim">started nothing</span>
      )}
    </li>
  );
}

const WEEKS = 53;
const BEFORE = 13;
const CELL = 10;

export function YearCard({ of }: { of: Source }) {
  const [limit, setLimit] = useState(TIMES);
  const next = useTimes(of.name, limit);
  const ticks = useData<Ticks>(`${route("sources", "schedule", of.name)}/ticks`, { limit });
  const zone = of.timezone ?? "UTC";
  return (
    <Card title="A year">
      <Show of={next} rows={3}>
        {(times) => <Year zone={zone} limit={limit} times={times} ticks={ticks.data?.items ?? []} />}
      </Show>
      {limit < MORE_TIMES && [next.data, ticks.data?.items].some((one) => one?.length === limit) && (
        <p>
          <Button onClick={() => setLimit(MORE_TIMES)}>Show {count(MORE_TIMES)} times</Button>
        </p>
      )}
    </Card>
  );
}

interface YearOf {
  zone: string;
  limit: number;
  times: readonly NextTime[];
  ticks: readonly Tick[];
}

function Year({ zone, limit, times, ticks }: YearOf) {
  const today = dateOf(times[0]?.local_time ?? new Date().toISOString());
  const weeks = weeksOf(today, BEFORE, WEEKS, ticks, times);
  const first = weeks[0]?.[0]?.date ?? today;
  const last = weeks.at(-1)?.[6]?.date ?? today;
  const changes = clockChanges(zone, first, last);
  const changed = new Set(changes.map((one) => one.date));
  const end = times.length === limit ? dateOf(times.at(-1)?.local_time ?? last) : null;
  return (
    <>
      <svg
        class="year"
        viewBox={`0 0 ${WEEKS * CELL} ${7 * CELL}`}
        role="img"
        aria-label={`${plural(ticks.length, "tick")} shown, ${plural(times.length, "time")} to come`}
      >
        {weeks.map((week, x) =>
          week.map((day, y) => (
            <rect
              key={day.date}
              class={classOf(day, day.date === today, changed.has(day.date))}
              x={x * CELL + 1}
              y={y * CELL + 1}
              width={CELL - 2}
              height={CELL - 2}
              rx={1}
            >
              <title>{titleOf(day)}</title>
            </rect>
          )),
        )}
      </svg>
      <p class="legend-line">
        <span class="day-ticked">ticked</span>
        <span class="day-stopped">stopped</span>
        <span class="day-planned">to come</span>
        <span class="day-change">clocks change</span>
      </p>
      {changes.length > 0 && (
        <p class="dim">
          Clocks change in {zone}:{" "}
          {changes.map((one) => `${one.date} (${one.minutes > 0 ? "+" : "−"}${Math.abs(one.minutes)} min)`).join(", ")}.
        </p>
      )}
      {end && end < last && <p class="dim">The next {count(limit)} times are shown; they end on {end}.</p>}
      {ticks.length === limit && <p class="dim">The newest {count(limit)} ticks are shown.</p>}
    </>
  );
}

function classOf(day: Day, today: boolean, change: boolean): string {
  const what = day.stopped ? "stopped" : day.ticked ? "ticked" : day.planned ? "planned" : "";
  return ["day", what, today ? "today" : "", change ? "change" : ""].filter(Boolean).join(" ");
}

function titleOf(day: Day): string {
  const parts = [
    day.ticked && `${plural(day.ticked, "tick")}`,
    day.stopped && `${count(day.stopped)} stopped`,
    day.planned && `${count(day.planned)} to come`,
  ].filter(Boolean);
  return `${day.date}: ${parts.join(", ") || "nothing"}`;
}

/** Asks, then makes an event of the schedule now. */
export function fireNow(row: Source): void {
  ask({
    title: `Run ${row.name} now?`,
    body: "It makes an event beside its times, with its own overlap policy.",
    verb: "Run now",
    run: async () => {
      const made = await send<TriggeredSchedule>("POST", action("trigger", "sources", "schedule", row.name), {});
      toast({ text: "It ticked", link: { to: urls.event(made.event_id), text: "the event" } });
    },
  });
}

const backfilled = signal<Source | null>(null);

/** Opens the dialog for a backfill. */
export function askBackfill(row: Source): void {
  backfilled.value = row;
}

/** The dialog for a backfill, when it is open. */
export function Backfills() {
  const row = backfilled.value;
  return row ? <Backfill of={row} close={() => (backfilled.value = null)} /> : null;
}

function Backfill({ of, close }: { of: Source; close: () => void }) {
  const [from, setFrom] = useState("");
  const [until, setUntil] = useState("");
  const [overlap, setOverlap] = useState("buffer_all");
  const [listed, setListed] = useState<BackfillAnswer | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const changed = (set: (text: string) => void) => (text: string) => {
    set(text);
    setListed(null);
  };
  const request = async (dry: boolean) => {
    if (busy || !from || !until) return;
    setBusy(true);
    setProblem(null);
    try {
      const body = { from, until, overlap, dry_run: dry };
      const answer = await send<BackfillAnswer>("POST", action("backfill", "sources", "schedule", of.name), body);
      setListed(answer);
      if (!dry) toast({ text: `${plural(fired(answer), "time")} fired` });
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  const open = listed?.items.filter((one) => one.status === "to be fired").length ?? 0;
  return (
    <Dialog title={`Backfill ${of.name}`} onClose={close} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void request(true);
        }}
      >
        <p class="dialog-text">
          Fires the times of a range that have no event. The times are in {of.timezone ?? "UTC"}. They are listed first.
        </p>
        <div class="fields">
          <Moment label="From" value={from} change={changed(setFrom)} />
          <Moment label="Until" value={until} change={changed(setUntil)} />
          <label class="field">
            <span>If one before it still runs</span>
            <select value={overlap} onChange={(event) => changed(setOverlap)(event.currentTarget.value)}>
              {OVERLAP.map((one) => (
                <option key={one} value={one}>
                  {one.replaceAll("_", " ")}
                </option>
              ))}
            </select>
          </label>
        </div>
        {problem && <Fault error={problem} />}
        {listed && <Listed of={listed} />}
        <div class="dialog-actions">
          <Button onClick={close}>{listed && !listed.dry_run ? "Close" : "Cancel"}</Button>
          <Button type="submit" disabled={!from || !until} busy={busy} why="Give both times first.">
            List the times
          </Button>
          <Button
            kind="primary"
            needs="operate"
            disabled={!open}
            busy={busy}
            why="List the times first."
            onClick={() => void request(false)}
          >
            {open ? `Fire ${plural(open, "time")}` : "Fire"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

const fired = (answer: BackfillAnswer) => answer.items.filter((one) => one.status === "fired").length;

function Moment({ label, value, change }: { label: string; value: string; change: (text: string) => void }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="datetime-local"
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

function Listed({ of }: { of: BackfillAnswer }) {
  if (!of.items.length) return <Empty title="The schedule has no times in this range." />;
  return (
    <div class="dialog-scroll" tabIndex={0} role="region" aria-label="Times of the range">
      <table class="plain-table">
        <tbody>
          {of.items.map((one) => (
            <tr key={one.fire_time}>
              <td>
                <Mark
                  name={one.status === "to be fired" ? "queued" : one.status === "fired" ? "succeeded" : "skipped"}
                  tone={one.status === "fired" ? "ok" : "off"}
                />{" "}
                <Name text={localText(one.local_time)} />
              </td>
              <td class={one.status === "fired before" ? "dim" : undefined}>{one.status}</td>
              <td class="end">{one.event_id && <More to={urls.event(one.event_id)}>event</More>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
