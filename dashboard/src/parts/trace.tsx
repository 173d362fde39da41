// The waterfall: one row each for events, executions, attempts and calls; waiting is a line, running is a bar.

import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { type Interval, placeOf, type Segment, segmentsOf, ticksOf } from "../axis.ts";
import { duration } from "../format.ts";
import { useKeys } from "../keys.ts";
import { Empty } from "./small.tsx";
import { pixels, rowId, useWidth, useWindow } from "./windowed.ts";

export interface TraceRow {
  readonly id: string;
  readonly depth: number;
  readonly parent: string | null;
  /** Mark and name: what readers hear, too. */
  readonly label: ComponentChildren;
  /** Times in milliseconds since 1970. Null: it has not begun. */
  readonly start: number | null;
  /** When it began to run; what lies before was waiting. */
  readonly running: number | null;
  readonly end: number | null;
  readonly tone: string;
  readonly thin?: boolean;
}

/** The rows on the critical path: those without which the last end would have been earlier. */
export function criticalPath(rows: readonly TraceRow[]): ReadonlySet<string> {
  const path = new Set<string>();
  const below = new Map<string | null, TraceRow[]>();
  for (const row of rows) {
    const list = below.get(row.parent);
    if (list) list.push(row);
    else below.set(row.parent, [row]);
  }
  // The end of a row is that of the latest row below it.
  const latest = new Map<string, number>();
  for (const row of [...rows].reverse()) {
    const own = row.end ?? row.running ?? row.start ?? 0;
    const children = below.get(row.id) ?? [];
    latest.set(row.id, Math.max(own, ...children.map((child) => latest.get(child.id) ?? 0)));
  }
  const ids = new Set(rows.map((row) => row.id));
  let candidates = rows.filter((row) => row.parent === null || !ids.has(row.parent));
  while (candidates.length) {
    const next = candidates.reduce((a, b) => ((latest.get(b.id) ?? 0) > (latest.get(a.id) ?? 0) ? b : a));
    if (path.has(next.id)) break;
    path.add(next.id);
    candidates = below.get(next.id) ?? [];
  }
  return path;
}

export interface TraceProps {
  readonly rows: readonly TraceRow[];
  readonly label: string;
  readonly selected: string | null;
  readonly onSelect: (row: TraceRow) => void;
  /** The present, for what runs. */
  readonly now: number;
  readonly keys?: boolean;
}

export function Trace({ rows, label, selected, onSelect, now, keys = true }: TraceProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [height] = useState(() => pixels("--row-trace"));
  const [zoom, setZoom] = useState<Interval | null>(null);
  const [critical, setCritical] = useState(false);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const seen = useWindow(scroller, height, rows.length);
  const axis = useRef<HTMLDivElement>(null);
  // A label of a tick needs some 90 px.
  const most = Math.max(2, Math.min(8, Math.floor(useWidth(axis) / 90)));
  const open = rows.some((row) => row.start !== null && row.end === null);
  const segments = useMemo(() => {
    const intervals = rows.flatMap((row) =>
      row.start === null ? [] : [{ start: row.start, end: row.end ?? (row.running ?? row.start) }],
    );
    if (zoom) return [{ ...zoom, from: 0, to: 1, broken: false }];
    const last = open ? [{ start: now, end: now }] : [];
    return segmentsOf([...intervals, ...last]);
  }, [rows, zoom, open ? now : 0]);
  const path = useMemo(() => (critical ? criticalPath(rows) : null), [rows, critical]);
  const at = Math.max(0, rows.findIndex((row) => row.id === selected));

  const move = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    const row = rows[next];
    if (row) onSelect(row);
    const element = scroller.current;
    if (!element) return;
    if (next * height < element.scrollTop) element.scrollTop = next * height;
    else if ((next + 1) * height > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * height - element.clientHeight;
  };
  const scale = (by: number) => {
    const first = segments[0] as Segment;
    const last = segments.at(-1) as Segment;
    const row = rows[at];
    const middle = row?.running ?? row?.start ?? (first.start + last.end) / 2;
    const half = ((last.end - first.start) * by) / 2;
    setZoom({ start: middle - half, end: middle + half });
  };
  useKeys(
    label,
    !keys
      ? []
      : [
          { keys: ["j", "ArrowDown"], label: "Next row", run: () => move(at + 1) },
          { keys: ["k", "ArrowUp"], label: "Previous row", run: () => move(at - 1) },
          { keys: "Home", label: "First row", run: () => move(0) },
          { keys: "End", label: "Last row", run: () => move(rows.length - 1) },
          { keys: ["+", "="], label: "Zoom in", run: () => scale(0.5) },
          { keys: "-", label: "Zoom out", run: () => scale(2), when: zoom !== null },
          { keys: "0", label: "Show all of the time", run: () => setZoom(null), when: zoom !== null },
          { keys: "x", label: "Critical path", run: () => setCritical(!critical) },
        ],
  );

  if (!rows.length) return <Empty title="Nothing ran yet." />;
  const percent = (place: number) => `${(place * 100).toFixed(3)}%`;
  const timeAt = (share: number) => {
    const one = segments.find((segment) => share <= segment.to) ?? (segments.at(-1) as Segment);
    return one.start + ((share - one.from) / (one.to - one.from || 1)) * (one.end - one.start);
  };
  const shareOf = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  };
  return (
    <div class="trace">
      <div class="trace-head">
        <div class="trace-tools">
          <button type="button" class="link" aria-pressed={critical} onClick={() => setCritical(!critical)}>
            critical path
          </button>
          {zoom && (
            <button type="button" class="link" onClick={() => setZoom(null)}>
              show all
            </button>
          )}
        </div>
        <div
          ref={axis}
          class="trace-axis"
          title="Drag to zoom"
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            const share = shareOf(event);
            setDrag({ from: share, to: share });
          }}
          onPointerMove={(event) => drag && setDrag({ ...drag, to: shareOf(event) })}
          onPointerUp={() => {
            if (drag && Math.abs(drag.to - drag.from) > 0.01) {
              const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
              setZoom({ start: timeAt(from), end: timeAt(to) });
            }
            setDrag(null);
          }}
        >
          {ticksOf(segments, most).map((tick) => (
            <span key={tick.seconds} class="trace-tick" style={{ left: percent(tick.place) }}>
              {tick.seconds === 0 ? "0" : duration(tick.seconds)}
            </span>
          ))}
          {segments
            .filter((one) => one.broken)
            .map((one) => (
              <span
                key={one.start}
                class="trace-break"
                style={{ left: percent(one.from), width: percent(one.to - one.from) }}
                title={`${duration((one.end - one.start) / 1000)} left out`}
              >
                ⋯ {duration((one.end - one.start) / 1000)} ⋯
              </span>
            ))}
          {drag && (
            <span
              class="trace-drag"
              style={{ left: percent(Math.min(drag.from, drag.to)), width: percent(Math.abs(drag.to - drag.from)) }}
            />
          )}
        </div>
      </div>
      <div
        class="trace-box"
        ref={scroller}
        role="tree"
        aria-label={label}
        tabIndex={0}
        aria-activedescendant={rowId(label, at)}
      >
        <div class="trace-sizer" role="presentation" style={{ height: `${rows.length * height}px` }}>
          {rows.slice(seen.from, seen.to).map((row, offset) => {
            const index = seen.from + offset;
            const seconds = row.running !== null ? ((row.end ?? now) - row.running) / 1000 : null;
            return (
              <div
                key={row.id}
                id={rowId(label, index)}
                class={[
                  "trace-row",
                  row.id === selected ? "active" : "",
                  path && !path.has(row.id) ? "faint" : "",
                ].join(" ")}
                role="treeitem"
                aria-level={row.depth + 1}
                aria-selected={row.id === selected}
                style={{ transform: `translateY(${index * height}px)` }}
                onClick={() => onSelect(row)}
              >
                <span class="trace-label" style={{ "--depth": Math.min(row.depth, 12) }}>
                  {row.label}
                </span>
                <span class="trace-lane" aria-hidden="true">
                  <Bars row={row} segments={segments} now={now} percent={percent} />
                </span>
                <span class="trace-took">
                  {seconds !== null ? duration(seconds) : ""}
                </span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function Bars({ row, segments, now, percent }: {
  row: TraceRow;
  segments: readonly Segment[];
  now: number;
  percent: (place: number) => string;
}) {
  if (row.start === null) return null;
  const from = placeOf(row.start, segments);
  if (row.running === null) {
    if (row.end !== null || row.tone === "event") return <span class="trace-instant" style={{ left: percent(from) }} />;
    return <span class="trace-wait" style={{ left: percent(from), width: percent(placeOf(now, segments) - from) }} />;
  }
  const begin = placeOf(row.running, segments);
  const end = placeOf(row.end ?? now, segments);
  return (
    <>
      {begin > from && <span class="trace-wait" style={{ left: percent(from), width: percent(begin - from) }} />}
      <span
        class={`trace-bar tone-${row.tone} ${row.thin ? "thin" : ""} ${row.end === null ? "open" : ""}`}
        style={{ left: percent(begin), width: percent(end - begin) }}
      />
    </>
  );
}
