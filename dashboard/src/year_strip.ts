// A year of a schedule, day by day: what ticked, what was stopped, what is planned, and where clocks change. Pure.

export interface Day {
  /** `2026-11-25`, in the schedule's zone. */
  readonly date: string;
  readonly ticked: number;
  readonly stopped: number;
  readonly planned: number;
}

export interface ClockChange {
  readonly date: string;
  /** Minutes that the clocks are put forward; negative is back. */
  readonly minutes: number;
}

const DAY = 86_400_000;

/** The date of a local time such as `2026-11-25T07:00:00+01:00`. */
export const dateOf = (local: string) => local.slice(0, 10);

const plus = (date: string, days: number) => new Date(Date.parse(date) + days * DAY).toISOString().slice(0, 10);

/** Weeks from Monday to Sunday: `before` weeks before that of `today`, and those after it until there are `count`. */
export function weeksOf(
  today: string,
  before: number,
  count: number,
  ticks: readonly { readonly local_time: string; readonly reason: string | null }[],
  planned: readonly { readonly local_time: string }[],
): readonly (readonly Day[])[] {
  const days = new Map<string, { ticked: number; stopped: number; planned: number }>();
  const at = (local: string) => {
    const date = dateOf(local);
    const found = days.get(date) ?? { ticked: 0, stopped: 0, planned: 0 };
    days.set(date, found);
    return found;
  };
  for (const tick of ticks) at(tick.local_time)[tick.reason === null ? "ticked" : "stopped"] += 1;
  for (const time of planned) at(time.local_time).planned += 1;
  const monday = plus(today, -((new Date(today).getUTCDay() + 6) % 7) - 7 * before);
  return Array.from({ length: count }, (_, week) =>
    Array.from({ length: 7 }, (_, day) => {
      const date = plus(monday, 7 * week + day);
      return { date, ...(days.get(date) ?? { ticked: 0, stopped: 0, planned: 0 }) };
    }),
  );
}

/** The days between two dates on which the clocks of a zone change. A zone that the browser does not know has none. */
export function clockChanges(zone: string, first: string, last: string): readonly ClockChange[] {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" });
  } catch {
    return [];
  }
  const found: ClockChange[] = [];
  let before: number | null = null;
  // Clocks change in the night: the offset at noon is that of the day.
  for (let date = first; date <= last; date = plus(date, 1)) {
    const offset = minutesOf(format, new Date(Date.parse(date) + DAY / 2));
    if (before !== null && offset !== before) found.push({ date, minutes: offset - before });
    before = offset;
  }
  return found;
}

function minutesOf(format: Intl.DateTimeFormat, time: Date): number {
  const name = format.formatToParts(time).find((part) => part.type === "timeZoneName")?.value ?? "";
  const parts = /([+-])(\d\d):(\d\d)/.exec(name);
  if (!parts) return 0;
  return (parts[1] === "-" ? -1 : 1) * (Number(parts[2]) * 60 + Number(parts[3]));
}

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** Whether one of the local times has seconds. */
export function haveSeconds(locals: readonly string[]): boolean {
  return locals.some((local) => /T\d\d:\d\d:(?!00)/.test(local));
}

/** `Wed 2026-11-25 07:00 +01:00`: a local time as people read it. Seconds of zero are left out, but for `exact`. */
export function localText(local: string, exact = false): string {
  const parts = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.\d+)?(Z|[+-]\d\d:\d\d)?$/.exec(local);
  if (!parts) return local;
  const [, date, minutes, seconds, offset] = parts;
  const day = WEEKDAYS[new Date(date as string).getUTCDay()];
  return `${day} ${date} ${minutes}${seconds === ":00" && !exact ? "" : (seconds ?? "")}${offset ? ` ${offset}` : ""}`;
}
