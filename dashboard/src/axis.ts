// The axis of the waterfall: times to places, with long gaps broken out. Pure.

export interface Interval {
  readonly start: number;
  readonly end: number;
}

/** A part of the axis: its times, and its places between 0 and 1. A broken one stands for a gap. */
export interface Segment {
  readonly start: number;
  readonly end: number;
  readonly from: number;
  readonly to: number;
  readonly broken: boolean;
}

/** Share of the width that a broken gap takes. */
const BREAK = 0.04;
const TIMES_MEDIAN = 20;
const EMPTY_SHARE = 0.6;
const MAX_BREAKS = 5;

/**
 * Segments for intervals. A gap is broken when it is longer than 20 times the median distance between neighbours and
 * takes more than a tenth of the width, or when more than 60 % of the width is that one gap.
 */
export function segmentsOf(intervals: readonly Interval[]): readonly Segment[] {
  const sorted = intervals.filter((one) => Number.isFinite(one.start)).sort((a, b) => a.start - b.start);
  const first = sorted[0];
  if (!first) return [{ start: 0, end: 1, from: 0, to: 1, broken: false }];
  const busy: { start: number; end: number }[] = [];
  for (const one of sorted) {
    const last = busy.at(-1);
    const end = Math.max(one.start, one.end);
    if (last && one.start <= last.end) last.end = Math.max(last.end, end);
    else busy.push({ start: one.start, end });
  }
  const begin = first.start;
  const finish = Math.max((busy.at(-1) as Interval).end, begin + 0.001);
  const whole = finish - begin;
  const starts = sorted.map((one) => one.start);
  const steps = starts.slice(1).map((start, at) => start - (starts[at] as number)).filter((step) => step > 0);
  steps.sort((a, b) => a - b);
  const median = steps[Math.floor((steps.length - 1) / 2)] ?? 0;
  const gaps = busy
    .slice(1)
    .map((one, at) => ({ start: (busy[at] as Interval).end, end: one.start }))
    .filter(({ start, end }) => {
      const size = end - start;
      return size > whole * EMPTY_SHARE || (size > TIMES_MEDIAN * median && size > whole * 0.1);
    })
    .sort((a, b) => b.end - b.start - (a.end - a.start))
    .slice(0, MAX_BREAKS)
    .sort((a, b) => a.start - b.start);
  if (!gaps.length) return [{ start: begin, end: finish, from: 0, to: 1, broken: false }];
  const parts: { start: number; end: number; broken: boolean }[] = [];
  let at = begin;
  for (const gap of gaps) {
    parts.push({ start: at, end: gap.start, broken: false }, { ...gap, broken: true });
    at = gap.end;
  }
  parts.push({ start: at, end: finish, broken: false });
  const used = parts.reduce((sum, part) => sum + (part.broken ? 0 : part.end - part.start), 0);
  const solid = parts.filter((part) => !part.broken).length;
  // A part without any length (one instant) still gets a little room.
  const floor = 0.02;
  const room = 1 - gaps.length * BREAK - solid * floor;
  let place = 0;
  return parts.map((part) => {
    const width = part.broken ? BREAK : floor + (used > 0 ? ((part.end - part.start) / used) * room : room / solid);
    const segment = { ...part, from: place, to: place + width };
    place += width;
    return segment;
  });
}

/** The place of a time, between 0 and 1. */
export function placeOf(time: number, segments: readonly Segment[]): number {
  for (const one of segments)
    if (time <= one.end) {
      if (time <= one.start) return one.from;
      return one.from + ((time - one.start) / (one.end - one.start)) * (one.to - one.from);
    }
  return segments.at(-1)?.to ?? 1;
}

export interface Tick {
  readonly place: number;
  /** Seconds since the begin of the axis. */
  readonly seconds: number;
}

/** Round ticks, at most `most` in all. */
export function ticksOf(segments: readonly Segment[], most = 6): readonly Tick[] {
  const begin = segments[0]?.start ?? 0;
  const solid = segments.filter((one) => !one.broken);
  const seconds = solid.reduce((sum, one) => sum + one.end - one.start, 0) / 1000;
  const step = niceStep(seconds / most) * 1000;
  const ticks: Tick[] = [];
  for (const one of solid) {
    let time = begin + Math.ceil((one.start - begin) / step - 1e-9) * step;
    for (; time <= one.end && ticks.length < most * 3; time += step) {
      const place = placeOf(time, segments);
      const last = ticks.at(-1);
      if (!last || place - last.place > 0.7 / most) ticks.push({ place, seconds: (time - begin) / 1000 });
    }
  }
  return ticks;
}

function niceStep(rough: number): number {
  if (!(rough > 0)) return 1;
  if (rough > 30) return [60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200].find((one) => one >= rough) ?? 86400;
  const power = 10 ** Math.floor(Math.log10(rough));
  const scaled = rough / power;
  return (scaled <= 1 ? 1 : scaled <= 2 ? 2 : scaled <= 5 ? 5 : 10) * power;
}
