// The picture of what can start what: boxes in layers, solid lines for what is certain, dashed for what is possible,
// red for cycles. The boxes are links; the arrow keys go along the lines.
//
// It is fitted to the width, as far as it can be read then.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { nameText } from "../format.ts";
import { useKeys } from "../keys.ts";
import { fitScale, LEAST_SCALE, type MapLayout, type MapWay, MOST_SCALE } from "../layout/map.ts";
import type { Href } from "../urls.ts";
import { computeLayout } from "../workers.ts";
import { Button, Link } from "./link.tsx";
import type { MarkName } from "./marks.ts";
import { Fault, Mark, Name, Skeleton } from "./small.tsx";
import { pixels, useWidth } from "./windowed.ts";

export interface GraphBox {
  readonly id: string;
  readonly kind: string;
  readonly name: string;
  readonly state?: string | null;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  readonly kind?: string;
  readonly certain: boolean;
}

/** The ids of the boxes of a cycle in their order, and what is written at the line that closes it. */
export interface GraphCycle {
  readonly ids: readonly string[];
  readonly note: string;
}

const MARK_OF: Readonly<Record<string, MarkName>> = {
  function: "function",
  trigger: "trigger",
  event: "event",
  schedule: "schedule",
  file: "file",
  webhook: "webhook",
  queue: "queue",
};

/** How far below its line a note stands. */
const NOTE = 14;
const WIDTH = 0.76;
const HEIGHT = 0.62;
/** The factor of one step of the zoom. */
const ZOOM_STEP = 1.2;

/** The picture. `active` is the box in the middle of attention; `zoom` adds buttons and keys that change the size. */
export function Graph({
  boxes,
  edges,
  cycles,
  active,
  label,
  zoom = false,
  hrefOf,
}: {
  boxes: readonly GraphBox[];
  edges: readonly GraphEdge[];
  cycles: readonly GraphCycle[];
  active?: string | null;
  label: string;
  zoom?: boolean;
  /** The page of a box. */
  hrefOf: (box: GraphBox) => Href | null;
}) {
  const [layout, setLayout] = useState<MapLayout | null>(null);
  const [error, setError] = useState<unknown>(null);
  const before = useRef<Record<string, number>>({});
  const scroller = useRef<HTMLDivElement>(null);
  const cell = useMemo(() => ({ x: pixels("--graph-x"), y: pixels("--graph-y") }), []);
  const room = useWidth(scroller);
  // Null while the picture is fitted.
  const [chosen, setChosen] = useState<number | null>(null);
  const width = (layout?.columns ?? 0) * cell.x;
  const height = (layout?.rows ?? 0) * cell.y;
  const scale = chosen ?? fitScale(width, room);
  const resize = (by: number) => setChosen(Math.min(MOST_SCALE, Math.max(LEAST_SCALE, scale * by)));
  const [smaller, larger] = [scale > LEAST_SCALE, scale < MOST_SCALE];
  useKeys("Map", [
    { keys: ["+", "="], label: "Larger", run: () => resize(ZOOM_STEP), when: zoom && larger },
    { keys: "-", label: "Smaller", run: () => resize(1 / ZOOM_STEP), when: zoom && smaller },
    { keys: "0", label: "Fit to the width", run: () => setChosen(null), when: zoom && chosen !== null },
  ]);
  const shape = useMemo(
    () => `${boxes.map((box) => box.id).join("|")}#${edges.map((edge) => `${edge.from}>${edge.to}`).join("|")}`,
    [boxes, edges],
  );
  useEffect(() => {
    const abort = new AbortController();
    const input = {
      boxes: boxes.map(({ id }) => ({ id })),
      edges: edges.map(({ from, to }) => ({ from, to })),
      before: before.current,
    };
    computeLayout<MapLayout>("map", input, abort.signal).then(
      (made) => {
        before.current = Object.fromEntries(made.boxes.map((box) => [box.id, box.y]));
        setLayout(made);
      },
      (fault: unknown) => {
        if (!(fault instanceof DOMException && fault.name === "AbortError")) setError(fault);
      },
    );
    return () => abort.abort();
  }, [shape]);
  const begun = useRef(false);
  useLayoutEffect(() => {
    const element = scroller.current;
    // A picture without an active box begins at its first one: at its corner there may be none.
    const box = layout?.boxes.find(({ id }) => id === active) ?? (begun.current ? undefined : layout?.boxes[0]);
    if (!element || !box) return;
    begun.current = true;
    element.scrollLeft = (box.x + 0.5) * cell.x * scale - element.clientWidth / 2;
    element.scrollTop = (box.y + 0.5) * cell.y * scale - element.clientHeight / 2;
  }, [layout, active, scale]);

  if (error) return <Fault error={error} />;
  // The element is there before the layout: its width is known when the picture is drawn first.
  const scrolled = (
    <div
      class="graph"
      ref={scroller}
      role="group"
      aria-label={label}
      onKeyDown={(event) => {
        const id = (event.target as HTMLElement).closest<HTMLElement>("[data-box]")?.dataset["box"];
        const to = id && layout ? stepTo(id, event.key, layout, edges) : null;
        if (!to) return;
        event.preventDefault();
        event.stopPropagation();
        scroller.current
          ?.querySelector<HTMLElement>(`[data-box="${CSS.escape(to)}"] > a, [data-box="${CSS.escape(to)}"] > span`)
          ?.focus();
      }}
    >
      {layout ? (
        <div class="graph-room" style={{ width: `${width * scale}px`, height: `${height * scale}px` }}>
          <div class="graph-sizer" style={{ transform: `scale(${scale})` }}>
            <Picture {...{ boxes, edges, cycles, active, hrefOf, layout, cell }} />
          </div>
        </div>
      ) : (
        <Skeleton rows={6} />
      )}
    </div>
  );
  if (!zoom) return scrolled;
  return (
    <div class="graph-frame">
      {scrolled}
      <div class="graph-zoom" role="group" aria-label="Size">
        <Button label="Smaller" disabled={!smaller} onClick={() => resize(1 / ZOOM_STEP)}>
          −
        </Button>
        <Button disabled={chosen === null} onClick={() => setChosen(null)}>
          Fit
        </Button>
        <Button label="Larger" disabled={!larger} onClick={() => resize(ZOOM_STEP)}>
          +
        </Button>
      </div>
    </div>
  );
}

/** Lines and boxes in the size of the layout. */
function Picture({
  boxes,
  edges,
  cycles,
  active,
  hrefOf,
  layout,
  cell,
}: {
  boxes: readonly GraphBox[];
  edges: readonly GraphEdge[];
  cycles: readonly GraphCycle[];
  active: string | null | undefined;
  hrefOf: (box: GraphBox) => Href | null;
  layout: MapLayout;
  cell: Cell;
}) {
  const known = new Map(boxes.map((box) => [box.id, box]));
  const certain = new Map(edges.map((edge) => [`${edge.from}>${edge.to}`, edge.certain]));
  const inCycle = new Set(cycles.flatMap((cycle) => cycle.ids));
  const notes = new Map(
    cycles.flatMap(({ ids, note }) => ids.map((id, index) => [`${id}>${ids[(index + 1) % ids.length]}`, note])),
  );
  const first = active && layout.boxes.some((box) => box.id === active) ? active : layout.boxes[0]?.id;
  return (
    <>
      <svg class="graph-lines" aria-hidden="true" width={layout.columns * cell.x} height={layout.rows * cell.y}>
        {layout.ways.map((way, at) => {
          const sure = certain.get(`${way.from}>${way.to}`) ?? true;
          const note = notes.get(`${way.from}>${way.to}`);
          const kind = `${note === undefined ? "" : "cyclic"} ${sure ? "" : "possible"}`;
          const middle = note !== undefined && way.back ? middleOf(way, cell) : null;
          return (
            <g key={at} class={kind}>
              <path class="way" d={wayPath(way, cell)} />
              <path class="head" d={headPath(way, cell)} />
              {middle && (
                <text class="note" x={middle.x} y={middle.y}>
                  {note}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      {layout.boxes.map(({ id, x, y }) => {
        const box = known.get(id);
        if (!box) return null;
        const to = hrefOf(box);
        const sentence = sentenceOf(box, edges, known, inCycle.has(id));
        return (
          <div
            key={id}
            class={`graph-box kind-${box.kind} ${inCycle.has(id) ? "cyclic" : ""} ${box.state ?? ""}`}
            data-box={id}
            data-active={id === active ? "" : undefined}
            style={{
              transform: `translate(${(x + (1 - WIDTH) / 2) * cell.x}px, ${(y + (1 - HEIGHT) / 2) * cell.y}px)`,
            }}
          >
            {to ? (
              <Link to={to} aria-label={sentence} title={sentence} tabIndex={id === first ? 0 : -1}>
                <BoxText box={box} />
              </Link>
            ) : (
              <span title={sentence} tabIndex={id === first ? 0 : -1}>
                <BoxText box={box} />
              </span>
            )}
          </div>
        );
      })}
    </>
  );
}

/** The box that an arrow key leads to. */
function stepTo(id: string, key: string, layout: MapLayout, edges: readonly GraphEdge[]): string | null {
  const place = new Map(layout.boxes.map((box) => [box.id, box]));
  const here = place.get(id);
  if (!here) return null;
  const nearest = (ids: readonly string[]) =>
    [...ids].sort(
      (a, b) => Math.abs((place.get(a)?.y ?? 0) - here.y) - Math.abs((place.get(b)?.y ?? 0) - here.y),
    )[0] ?? null;
  if (key === "ArrowRight") return nearest(edges.filter((edge) => edge.from === id).map((edge) => edge.to));
  if (key === "ArrowLeft") return nearest(edges.filter((edge) => edge.to === id).map((edge) => edge.from));
  const column = layout.boxes.filter((box) => box.x === here.x && box.id !== id);
  if (key === "ArrowDown") return nearest(column.filter((box) => box.y > here.y).map((box) => box.id));
  if (key === "ArrowUp") return nearest(column.filter((box) => box.y < here.y).map((box) => box.id));
  return null;
}

function BoxText({ box }: { box: GraphBox }) {
  return (
    <>
      <Mark name={MARK_OF[box.kind] ?? MARK_OF[box.name.split("/")[0] ?? ""] ?? "nomatch"} />
      <span class="graph-name">
        <Name text={box.name} />
      </span>
      {stateText(box) && <span class="dim"> {stateText(box)}</span>}
    </>
  );
}

const stateText = (box: GraphBox) => (box.state && box.state !== "enabled" ? nameText(box.state) : "");

function sentenceOf(
  box: GraphBox,
  edges: readonly GraphEdge[],
  known: ReadonlyMap<string, GraphBox>,
  cyclic: boolean,
): string {
  const nameOf = (id: string) => nameText(known.get(id)?.name ?? id);
  const names = (ids: readonly string[]) => [...new Set(ids.map(nameOf))].join(", ");
  const after = names(edges.filter((edge) => edge.from === box.id).map((edge) => edge.to));
  const ahead = names(edges.filter((edge) => edge.to === box.id).map((edge) => edge.from));
  const parts = [`${box.kind.replaceAll("_", " ")} ${nameText(box.name)} ${stateText(box)}`.trim()];
  if (ahead) parts.push(`after ${ahead}`);
  if (after) parts.push(`leads to ${after}`);
  if (cyclic) parts.push("in a cycle");
  return parts.join("; ");
}

interface Cell {
  readonly x: number;
  readonly y: number;
}

function ends(way: MapWay, cell: Cell) {
  const points = way.points.map(({ x, y }) => ({ x: (x + 0.5) * cell.x, y: (y + 0.5) * cell.y }));
  const half = (WIDTH / 2) * cell.x;
  const from = points[0] ?? { x: 0, y: 0 };
  const to = points[points.length - 1] ?? from;
  // A line that goes back leaves at the left and comes in at the right, below those that go forward.
  const side = way.back ? -1 : 1;
  const low = way.back && way.from !== way.to ? (HEIGHT / 4) * cell.y : 0;
  return {
    points,
    from: { x: from.x + side * half, y: from.y + low },
    to: { x: to.x - side * half, y: to.y + low },
    side,
  };
}

/** The line of an edge, through the places it passes. */
function wayPath(way: MapWay, cell: Cell): string {
  const { points, from, to, side } = ends(way, cell);
  if (way.from === way.to) {
    const top = from.y - (HEIGHT / 2) * cell.y;
    const x = points[0]?.x ?? 0;
    return `M${x - 10} ${top}C${x - 20} ${top - 22} ${x + 20} ${top - 22} ${x + 10} ${top}`;
  }
  const stops = [from, ...points.slice(1, -1), to];
  let path = `M${from.x} ${from.y}`;
  for (let at = 1; at < stops.length; at++) {
    const a = stops[at - 1] as Cell;
    const b = stops[at] as Cell;
    const bend = Math.max(12, Math.abs(b.x - a.x) / 2) * side;
    path += `C${a.x + bend} ${a.y} ${b.x - bend} ${b.y} ${b.x} ${b.y}`;
  }
  return path;
}

/** The place of a text at the line of an edge: below its middle. */
function middleOf(way: MapWay, cell: Cell): Cell {
  const { from, to, points } = ends(way, cell);
  const between = points.slice(1, -1);
  const at = between[Math.floor(between.length / 2)] ?? { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  return { x: at.x, y: at.y + NOTE };
}

function headPath(way: MapWay, cell: Cell): string {
  if (way.from === way.to) {
    const x = ((way.points[0]?.x ?? 0) + 0.5) * cell.x + 10;
    const y = ((way.points[0]?.y ?? 0) + 0.5) * cell.y - (HEIGHT / 2) * cell.y;
    return `M${x - 2} ${y - 7}L${x} ${y}L${x + 6} ${y - 5}`;
  }
  const { to, side } = ends(way, cell);
  return `M${to.x - 7 * side} ${to.y - 4}L${to.x} ${to.y}L${to.x - 7 * side} ${to.y + 4}`;
}
