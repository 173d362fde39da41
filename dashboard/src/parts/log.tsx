// The lines that an execution printed: windowed, filtered by stream, level and attempt, followed until one scrolls.

import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Piece } from "../ansi.ts";
import { duration, nameText, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { entries, type Gap, keyOf, type KnownLines } from "../log_lines.ts";
import { entryRows, type GapRow, type LogRow, type TextRow } from "../log_rows.ts";
import { isRedacted } from "../rows.ts";
import { Button } from "./link.tsx";
import { copy, Empty, RedactedChip } from "./small.tsx";
import { pixels, useWidth, useWindow } from "./windowed.ts";

export interface LogProps {
  readonly known: KnownLines;
  /** True while more lines can come. */
  readonly running: boolean;
  /** The attempt that is chosen, by its fence. */
  readonly fence?: number | null;
  /** Reads lines that are missing. */
  readonly onGap: (gap: Gap) => void;
}

// Characters whose width tells that of one.
const PROBE = "0".repeat(100);

export function Log({ known, running, fence = null, onGap }: LogProps) {
  const { lines } = known;
  const scroller = useRef<HTMLDivElement>(null);
  const [row] = useState(() => pixels("--row-log"));
  const [stream, setStream] = useState("");
  const [level, setLevel] = useState("");
  const [wrap, setWrap] = useState(false);
  const [times, setTimes] = useState(true);
  const [newestFirst, setNewestFirst] = useState(false);
  const [follow, setFollow] = useState(true);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const streams = useMemo(() => [...new Set(lines.map((line) => line.stream))].sort(), [lines]);
  const levels = useMemo(() => [...new Set(lines.map((line) => line.level).filter(Boolean))].sort(), [lines]);
  const room = useRef<HTMLSpanElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const [roomWidth, probeWidth] = [useWidth(room), useWidth(probe)];
  const columns = wrap && probeWidth ? Math.floor((roomWidth * PROBE.length) / probeWidth) : null;
  const shown = useMemo(() => entries(known, fence), [known, fence]);
  const chosen = useMemo(
    () => shown.filter(({ line }) => (!stream || line.stream === stream) && (!level || line.level === level)),
    [shown, stream, level],
  );
  const gaps = useMemo(() => shown.flatMap(({ gap }) => gap ?? []), [shown]);
  const rows = useMemo(() => {
    const kept = new Set(chosen);
    const made: LogRow[] = [];
    for (const entry of newestFirst ? [...shown].reverse() : shown) {
      const gap: LogRow[] = entry.gap ? [{ kind: "gap", gap: entry.gap }] : [];
      const own = kept.has(entry) ? entryRows(entry.line, open.has(keyOf(entry.line)), columns) : [];
      for (const one of newestFirst ? [...own, ...gap] : [...gap, ...own]) made.push(one);
    }
    return made;
  }, [shown, chosen, open, newestFirst, columns]);
  const onScroll = useCallback(
    (top: number, below: number) => setFollow(newestFirst ? top < 4 : below < 4),
    [newestFirst],
  );
  const seen = useWindow(scroller, row, rows.length, onScroll);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && follow && running) element.scrollTop = newestFirst ? 0 : element.scrollHeight;
  }, [rows.length, follow, running, newestFirst]);
  useKeys("Log", [{ keys: "w", label: "Wrap lines", run: () => setWrap(!wrap) }]);

  if (!lines.length)
    return <Empty title={running ? "Nothing was printed yet." : "Nothing was printed."} />;
  const text = () =>
    chosen
      .map(({ line, gap }) => {
        const missing = gap ? "… lines are missing here\n" : "";
        const said = isRedacted(line.text) ? "«redacted»" : line.text.replace(/\n$/, "");
        return missing + (times ? `${line.offset_seconds.toFixed(3)} ${line.stream} ${said}` : said);
      })
      .join("\n");
  const drawn = rows.slice(seen.from, seen.to);
  return (
    <div class={`log ${wrap ? "wrap" : ""}`}>
      <div class="log-tools">
        <select aria-label="Stream" value={stream} onChange={(event) => setStream(event.currentTarget.value)}>
          <option value="">all streams</option>
          {streams.map((one) => (
            <option key={one} value={one}>{nameText(one)}</option>
          ))}
        </select>
        {levels.length > 0 && (
          <select aria-label="Level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            <option value="">all levels</option>
            {levels.map((one) => (
              <option key={one} value={one ?? ""}>{nameText(one)}</option>
            ))}
          </select>
        )}
        <label class="filter-switch">
          <input type="checkbox" checked={wrap} onChange={() => setWrap(!wrap)} /> wrap
        </label>
        <label class="filter-switch">
          <input type="checkbox" checked={times} onChange={() => setTimes(!times)} /> times
        </label>
        <label class="filter-switch">
          <input type="checkbox" checked={newestFirst} onChange={() => setNewestFirst(!newestFirst)} /> newest first
        </label>
        <span class="spacer" />
        <span class="dim">{plural(chosen.length, "line")}</span>
        {gaps[0] && (
          <>
            <span class="tone-warn">not all are here</span>
            <Button kind="plain" onClick={() => gaps[0] && onGap(gaps[0])}>Load more</Button>
          </>
        )}
        <Button kind="plain" onClick={() => void copy(text(), "the log")}>Copy</Button>
      </div>
      <div class="log-box" ref={scroller} tabIndex={0} role="log" aria-label="Log" aria-live="off">
        <div class="log-sizer" style={{ height: `${rows.length * row}px` }}>
          <div class="log-line log-probe" aria-hidden="true">
            {times && <span class="log-time" />}
            <span class="log-room" ref={room} />
            <span class="log-ruler" ref={probe}>{PROBE}</span>
          </div>
          {drawn.map((one, offset) => (
            <div
              key={one.kind === "gap" ? `gap.${one.gap.after}` : `${one.id}.${seen.from + offset}`}
              class={classOf(one)}
              style={{ transform: `translateY(${(seen.from + offset) * row}px)` }}
            >
              {one.kind === "gap" ? (
                <GapText of={one} read={onGap} />
              ) : (
                <Text of={one} times={times} unfold={() => setOpen(new Set([...open, one.id]))} />
              )}
            </div>
          ))}
        </div>
      </div>
      {running && !follow && (
        <button
          type="button"
          class="table-fresh"
          onClick={() => {
            setFollow(true);
          }}
        >
          follow ↓
        </button>
      )}
    </div>
  );
}

function Text({ of, times, unfold }: { of: TextRow; times: boolean; unfold: () => void }) {
  const { line } = of;
  return (
    <>
      {times && <span class="log-time">{of.first ? duration(line.offset_seconds) : ""}</span>}
      <span class="log-text">
        {isRedacted(line.text) ? <RedactedChip needs={line.text.redacted} /> : <Colours of={of.pieces} />}
        {of.folded > 0 && (
          <button type="button" class="link" onClick={unfold}>
            +{plural(of.folded, "line")}
          </button>
        )}
      </span>
    </>
  );
}

function GapText({ of, read }: { of: GapRow; read: (gap: Gap) => void }) {
  const { most } = of.gap;
  return (
    <span class="log-gap">
      {most === null ? "Lines are not shown here." : `Up to ${plural(most, "line")} are not shown here.`}{" "}
      <button type="button" class="link" onClick={() => read(of.gap)}>
        load
      </button>
    </span>
  );
}

function classOf(row: LogRow): string {
  if (row.kind === "gap") return "log-line";
  return `log-line ${row.line.stream === "stderr" ? "stderr" : ""} level-${levelTone(row.line.level)}`;
}

function Colours({ of }: { of: readonly Piece[] }) {
  return (
    <bdi>
      {of.map((piece, at) => (
        <span key={at} class={piece.classes || undefined}>{piece.text}</span>
      ))}
    </bdi>
  );
}

function levelTone(level: string | null): string {
  const name = (level ?? "").toLowerCase();
  if (name === "error" || name === "critical") return "bad";
  return name === "warning" ? "warn" : "plain";
}
