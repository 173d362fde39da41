// The tree as a picture: at most 400 boxes. For readers and keys it is a tree, in the order of the outline.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { nameText } from "../format.ts";
import { jointsOf, type Placed, type TreeLayout } from "../layout/tree.ts";
import { useKeys } from "../keys.ts";
import { forestOf, leftOut, outlineRows, waysToFailures } from "../outline_rows.ts";
import { lookOf, MARKS } from "../parts/marks.ts";
import { nodeHref } from "../parts/outline.tsx";
import { Skeleton } from "../parts/small.tsx";
import { go, hereWith } from "../router.ts";
import type { OutlineNode } from "../rows.ts";
import { computeLayout } from "../workers.ts";
import { LeftOut } from "./left_out.tsx";

export const MAX_BOXES = 400;
const BOX = { width: 190, height: 24, column: 230, row: 32 };

export function TreeGraph({ nodes, selected, failuresOnly, onSelect }: {
  nodes: readonly OutlineNode[];
  selected: string | null;
  failuresOnly: boolean;
  onSelect: (node: OutlineNode) => void;
}) {
  const [layout, setLayout] = useState<TreeLayout | null>(null);
  const wanted = useMemo(() => {
    const only = failuresOnly ? waysToFailures(nodes) : null;
    return nodes.filter((node) => !only || only.has(node.id));
  }, [nodes, failuresOnly]);
  const drawn = useMemo(() => wanted.slice(0, MAX_BOXES), [wanted]);
  useEffect(() => {
    const abort = new AbortController();
    const boxes = drawn.map(({ id, parent }) => ({ id, parent }));
    computeLayout<TreeLayout>("tree", boxes, abort.signal).then(setLayout, () => undefined);
    return () => abort.abort();
  }, [drawn]);
  const rows = useMemo(() => outlineRows(forestOf(drawn), new Set()), [drawn]);
  const placeOf = (id: string | null | undefined) => Math.max(0, rows.findIndex((row) => row.node.id === id));
  const at = placeOf(selected);
  const picture = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (selected) picture.current?.querySelector(".active")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [layout, selected]);
  const move = (index: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (row) onSelect(row.node);
  };
  useKeys("Graph", [
    { keys: ["j", "ArrowDown"], label: "Next box", run: () => move(at + 1) },
    { keys: ["k", "ArrowUp"], label: "Previous box", run: () => move(at - 1) },
    { keys: "Home", label: "First box", run: () => move(0) },
    { keys: "End", label: "Last box", run: () => move(rows.length - 1) },
    { keys: "ArrowLeft", label: "What led to it", run: () => move(placeOf(rows[at]?.node.parent)) },
    { keys: "ArrowRight", label: "What it led to first", run: () => rows[at]?.known && move(at + 1) },
    {
      keys: "Enter",
      label: "Open the box's page",
      run: () => {
        const to = rows[at] && nodeHref(rows[at].node);
        if (to) go(to);
      },
    },
  ]);
  if (!layout) return <Skeleton />;
  const places = new Map(layout.boxes.map((box) => [box.id, box]));
  const width = layout.columns * BOX.column + 20;
  const height = layout.rows * BOX.row + 20;
  return (
    <>
      <div
        class="tree-graph"
        ref={picture}
        tabIndex={0}
        role="tree"
        aria-label="Graph of the tree"
        aria-activedescendant={`box-${at}`}
      >
        <svg role="presentation" width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
          {layout.boxes.map((box) => {
            const parent = box.parent === null ? undefined : places.get(box.parent);
            if (!parent) return null;
            const x1 = 10 + parent.x * BOX.column + BOX.width;
            const y1 = 10 + parent.y * BOX.row + BOX.height / 2;
            const x2 = 10 + box.x * BOX.column;
            const y2 = 10 + box.y * BOX.row + BOX.height / 2;
            const half = (x2 - x1) / 2;
            const d = `M${x1} ${y1}C${x1 + half} ${y1} ${x2 - half} ${y2} ${x2} ${y2}`;
            return <path key={box.id} class="tree-edge" d={d} />;
          })}
          {jointsOf(drawn).map(({ from, to }) => {
            const [a, b] = [places.get(from), places.get(to)];
            return a && b && <path key={`${from}>${to}`} class="tree-joint" d={jointPath(a, b)} />;
          })}
          {rows.map(({ node, depth, known }, index) => {
            const box = places.get(node.id);
            if (!box) return null;
            const state = node.kind === "execution" || node.kind === "group" ? lookOf(node.state ?? "queued") : null;
            const other = node.kind === "event" || node.kind === "joined" ? node.kind : "suppressed";
            const mark = state?.mark ?? other;
            const tone = state?.tone ?? (node.kind === "event" ? "off" : "warn");
            const name = nameText(node.name);
            const several = node.count === null ? "" : ` ×${node.count}`;
            const sentence = `${node.kind} ${name}${several} ${node.state ?? ""}`.trim();
            return (
              <g
                key={box.id}
                id={`box-${index}`}
                role="treeitem"
                aria-level={depth + 1}
                aria-selected={index === at}
                aria-expanded={known ? true : undefined}
                aria-label={sentence}
                class={`tree-box tone-${tone} ${box.id === selected ? "active" : ""}`}
                transform={`translate(${10 + box.x * BOX.column} ${10 + box.y * BOX.row})`}
                onClick={() => onSelect(node)}
              >
                <title>{sentence}</title>
                <rect width={BOX.width} height={BOX.height} rx="6" />
                <g transform="translate(5 4)" class="mark">
                  {MARKS[mark].map(([way, d]) => (
                    <path key={d} class={way === "f" ? "fill" : "stroke"} d={d} />
                  ))}
                </g>
                <text x="27" y="16">
                  {name.length > 22 ? `${name.slice(0, 21)}…` : name}
                  {several}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      <LeftOut
        number={wanted.length - drawn.length + leftOut(nodes, failuresOnly)}
        to={hereWith({ view: null })}
      />
    </>
  );
}

/** A curve from the right of one box to the right of another one, around what is between them. */
function jointPath(from: Placed, to: Placed): string {
  const point = (box: Placed) => ({
    x: 10 + box.x * BOX.column + BOX.width,
    y: 10 + box.y * BOX.row + BOX.height / 2,
  });
  const [a, b] = [point(from), point(to)];
  const bend = Math.max(a.x, b.x) + BOX.column - BOX.width;
  return `M${a.x} ${a.y}C${bend} ${a.y} ${bend} ${b.y} ${b.x} ${b.y}`;
}
