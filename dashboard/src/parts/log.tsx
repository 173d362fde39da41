// The lines that an execution printed: windowed, filtered by stream, level and attempt, followed until one scrolls.

import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ansiPieces } from "../ansi.ts";
import { count, duration, visible } from "../format.ts";
import { useKeys } from "../keys.ts";
import { isRedacted, type LogLine } from "../rows.ts";
import { Button } from "./link.tsx";
import { copy, Empty, RedactedChip } from "./small.tsx";
import { pixels, useWindow } from "./windowed.ts";

const CUT = 2000;

interface Row {
  readonly line: LogLine;
  readonly text: string;
  /** Number of further lines of the same entry that are folded away. */
  readonly folded: number;
  readonly first: boolean;
  readonly id: string;
}

const idOf = (line: LogLine) => `${line.fence}.${line.seq}`;

function rowsOf(lines: readonly LogLine[], open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  for (const line of lines) {
    const text = isRedacted(line.text) ? "" : line.text.replace(/\n$/, "");
    const parts = text.split("\n");
    const id = idOf(line);
    const folded = parts.length > 3 && !open.has(id);
    const drawn = folded ? parts.slice(0, 1) : parts;
    drawn.forEach((part, at) =>
      rows.push({ line, text: part, folded: folded ? parts.length - 1 : 0, first: at === 0, id }),
    );
  }
  return rows;
}

export interface LogProps {
  readonly lines: readonly LogLine[];
  /** True while more lines can come. */
  readonly running: boolean;
  /** The attempt that is chosen, by its fence. */
  readonly fence?: number | null;
  readonly truncated?: boolean;
}

export function Log({ lines, running, fence, truncated }: LogProps) {
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
  const chosen = useMemo(
    () =>
      lines.filter(
        (line) =>
          (!stream || line.stream === stream) &&
          (!level || line.level === level) &&
          (fence === null || fence === undefined || line.fence === fence),
      ),
    [lines, stream, level, fence],
  );
  const rows = useMemo(() => {
    const made = rowsOf(newestFirst ? [...chosen].reverse() : chosen, open);
    return made;
  }, [chosen, open, newestFirst]);
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
      .map((line) => {
        const said = isRedacted(line.text) ? "«redacted»" : line.text.replace(/\n$/, "");
        return times ? `${line.offset_seconds.toFixed(3)} ${line.stream} ${said}` : said;
      })
      .join("\n");
  const drawn = wrap ? rows.slice(0, 2000) : rows.slice(seen.from, seen.to);
  return (
    <div class={`log ${wrap ? "wrap" : ""}`}>
      <div class="log-tools">
        <select aria-label="Stream" value={stream} onChange={(event) => setStream(event.currentTarget.value)}>
          <option value="">all streams</option>
          {streams.map((one) => (
            <option key={one} value={one}>{one}</option>
          ))}
        </select>
        {levels.length > 0 && (
          <select aria-label="Level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            <option value="">all levels</option>
            {levels.map((one) => (
              <option key={one} value={one ?? ""}>{one}</option>
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
        <span class="dim">{count(chosen.length)} lines</span>
        <Button kind="plain" onClick={() => void copy(text(), "the log")}>Copy</Button>
      </div>
      {truncated && <p class="notice">The first lines were cut: the log was larger than its limit.</p>}
      <div class="log-box" ref={scroller} tabIndex={0} role="log" aria-label="Log" aria-live="off">
        <div class="log-sizer" style={wrap ? {} : { height: `${rows.length * row}px` }}>
          {drawn.map((one, offset) => (
            <div
              key={`${one.id}.${seen.from + offset}`}
              class={`log-line ${one.line.stream === "stderr" ? "stderr" : ""} level-${levelTone(one.line.level)}`}
              style={wrap ? {} : { transform: `translateY(${(seen.from + offset) * row}px)` }}
            >
              {times && <span class="log-time">{one.first ? duration(one.line.offset_seconds) : ""}</span>}
              <span class="log-text">
                {isRedacted(one.line.text) ? (
                  <RedactedChip needs={one.line.text.redacted} />
                ) : (
                  <Colours text={one.text} />
                )}
                {one.folded > 0 && (
                  <button type="button" class="link" onClick={() => setOpen(new Set([...open, one.id]))}>
                    +{count(one.folded)} lines
                  </button>
                )}
              </span>
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

function Colours({ text }: { text: string }) {
  const cut = text.length > CUT ? `${text.slice(0, CUT)}…` : text;
  return (
    <bdi>
      {ansiPieces(cut).map((piece, at) => (
        <span key={at} class={piece.classes || undefined}>{visible(piece.text)}</span>
      ))}
    </bdi>
  );
}

function levelTone(level: string | null): string {
  const name = (level ?? "").toLowerCase();
  if (name === "error" || name === "critical") return "bad";
  return name === "warning" ? "warn" : "plain";
}
