// The outline of a tree: what led to what, one line each, to fold and unfold.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { isBad } from "../execution_states.ts";
import { count, duration, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { forestOf, outlineRows, type OutlineRow, waysToFailures } from "../outline_rows.ts";
import { go } from "../router.ts";
import type { OutlineNode } from "../rows.ts";
import { type Href, urls } from "../urls.ts";
import { Link } from "./link.tsx";
import { lookOf } from "./marks.ts";
import { Ago, Empty, FunctionName, Mark, Name, PayloadText, State } from "./small.tsx";
import { pixels, rowId, useWindow } from "./windowed.ts";

/** The page of a node; null for a group. */
export function nodeHref(node: OutlineNode): Href | null {
  if (node.kind === "event") return urls.event(node.id);
  if (node.kind === "execution") return urls.execution(node.id);
  if (node.kind === "suppressed") return urls.trigger(node.name);
  return null;
}

export interface OutlineProps {
  readonly nodes: readonly OutlineNode[];
  readonly label: string;
  readonly selected?: string | null;
  readonly onSelect?: (node: OutlineNode) => void;
  /** Fetches the children that a node has beyond those that are here. */
  readonly onMore?: (node: OutlineNode) => void;
  readonly failuresOnly?: boolean;
  readonly keys?: boolean;
}

export function Outline({ nodes, label, selected, onSelect, onMore, failuresOnly, keys = true }: OutlineProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [height] = useState(() => pixels("--row-trace"));
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const forest = useMemo(() => forestOf(nodes), [nodes]);
  const only = useMemo(() => (failuresOnly ? waysToFailures(nodes) : undefined), [nodes, failuresOnly]);
  const rows = useMemo(() => outlineRows(forest, folded, only), [forest, folded, only]);
  const seen = useWindow(scroller, height, rows.length);
  const at = Math.max(0, rows.findIndex((row) => row.node.id === selected));

  const reveal = (index: number) => {
    const element = scroller.current;
    if (!element) return;
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight)
      element.scrollTop = top + height - element.clientHeight;
  };
  useLayoutEffect(() => {
    if (selected) reveal(at);
  }, [selected]);
  const move = (index: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (row) onSelect?.(row.node);
  };
  const fold = (row: OutlineRow | undefined, close: boolean) => {
    if (!row) return;
    if (close && !row.open) {
      // A line that is folded already leads to the one above it.
      const parent = rows.findIndex((one) => one.node.id === row.node.parent);
      if (parent >= 0) move(parent);
      return;
    }
    if (!close && !row.open && row.missing > 0 && row.known === 0) onMore?.(row.node);
    const next = new Set(folded);
    if (close) next.add(row.node.id);
    else next.delete(row.node.id);
    setFolded(next);
  };
  useKeys(
    label,
    !keys
      ? []
      : [
          { keys: ["j", "ArrowDown"], label: "Next line", run: () => move(at + 1) },
          { keys: ["k", "ArrowUp"], label: "Previous line", run: () => move(at - 1) },
          { keys: "Home", label: "First line", run: () => move(0) },
          { keys: "End", label: "Last line", run: () => move(rows.length - 1) },
          { keys: "ArrowLeft", label: "Fold", run: () => fold(rows[at], true) },
          { keys: "ArrowRight", label: "Unfold", run: () => fold(rows[at], false) },
          {
            keys: "Enter",
            label: "Open the line's page",
            run: () => {
              const to = rows[at] && nodeHref((rows[at] as OutlineRow).node);
              if (to) go(to);
            },
          },
        ],
  );

  if (!rows.length) return <Empty title={failuresOnly ? "Nothing failed here." : "Nothing is here."} />;
  return (
    <div
      class="outline"
      ref={scroller}
      role="tree"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={rowId(label, at)}
    >
      <div class="outline-sizer" role="presentation" style={{ height: `${rows.length * height}px` }}>
        {rows.slice(seen.from, seen.to).map((row, offset) => {
          const index = seen.from + offset;
          return (
            <div
              key={row.node.id}
              id={rowId(label, index)}
              class={`outline-row ${index === at && selected ? "active" : ""}`}
              role="treeitem"
              aria-level={row.depth + 1}
              aria-selected={index === at}
              aria-expanded={row.known || row.missing ? row.open : undefined}
              style={{ transform: `translateY(${index * height}px)` }}
              onClick={() => onSelect?.(row.node)}
            >
              <Guides row={row} toggle={() => fold(row, row.open)} />
              <NodeText node={row.node} />
              {row.missing > 0 && onMore && (
                <button
                  type="button"
                  class="link"
                  tabIndex={-1}
                  onClick={(event) => {
                    event.stopPropagation();
                    onMore(row.node);
                  }}
                >
                  {row.node.worst && isBad(row.node.worst) && <Mark name={lookOf(row.node.worst).mark} tone="bad" />}+
                  {count(row.missing)}
                </button>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** The lines that lead to a row. Without `toggle` it cannot be folded. */
export function Guides({ row, toggle }: { row: OutlineRow; toggle?: () => void }) {
  return (
    <>
      {row.guides.map((goes, at) => (
        <span key={at} class={goes ? "guide on" : "guide"} />
      ))}
      {row.depth > 0 && <span class={row.last ? "guide last" : "guide branch"} />}
      {!toggle ? null : row.known > 0 ? (
        <button
          type="button"
          class="fold"
          tabIndex={-1}
          aria-label={row.open ? "Fold" : "Unfold"}
          onClick={(event) => {
            event.stopPropagation();
            toggle();
          }}
        >
          {row.open ? "▾" : "▸"}
        </button>
      ) : (
        <span class="fold" />
      )}
    </>
  );
}

/** A node in one line: mark, name, what it is about, how long. `tab` is the tab index of its links. */
export function NodeText({ node, tab = -1 }: { node: OutlineNode; tab?: number }) {
  const to = nodeHref(node);
  if (node.kind === "event")
    return (
      <span class="node">
        <Mark name="event" tone={node.state === "quarantined" ? "bad" : "off"} />
        <NodeName to={to} name={node.name} tab={tab} />
        <span class="dim">
          <PayloadText text={node.about} />
        </span>
        <span class="node-end dim">
          <Ago time={node.start} />
        </span>
      </span>
    );
  if (node.kind === "suppressed" || node.kind === "joined")
    return (
      <span class="node">
        <Mark name={node.kind} tone={node.kind === "joined" ? "off" : "warn"} />
        <NodeName to={to} name={node.name} tab={tab} />
        <span class={node.kind === "joined" ? "dim" : "tone-warn"}>
          {node.kind}
          {node.reason && <>: <Name text={node.reason} /></>}
        </span>
      </span>
    );
  if (node.kind === "group")
    return (
      <span class="node">
        {node.state ? <State state={node.state} bare /> : <Mark name="function" tone="off" />}
        <FunctionName name={node.name} version={node.version} />
        <span class="pill">×{count(node.count ?? node.children)}</span>
        <span class="dim">
          {node.median_seconds !== null && node.median_seconds !== undefined
            ? `${duration(node.min_seconds)} – ${duration(node.median_seconds)} – ${duration(node.max_seconds)}`
            : plural(node.count ?? node.children, "execution")}
        </span>
      </span>
    );
  return (
    <span class="node">
      <State state={node.state} bare />
      <NodeName to={to} name={node.name} version={node.version} tab={tab} />
      <span class="dim">
        <PayloadText text={node.about} />
      </span>
      {node.error_type && (
        <span class="tone-bad">
          <Name text={node.error_type} />
        </span>
      )}
      {node.cancelled_by && (
        <span class="dim">
          by <Name text={node.cancelled_by} />
        </span>
      )}
      {node.attempt !== null && node.attempt > 1 && <span class="dim">attempt {node.attempt}</span>}
      <span class="node-end dim">{duration(node.run_seconds)}</span>
    </span>
  );
}

function NodeName(of: { to: Href | null; name: string; version?: number | null; tab: number }) {
  const { to, name, version, tab } = of;
  const text = <FunctionName name={name} {...(version === undefined ? {} : { version })} />;
  return to ? (
    <Link to={to} tabIndex={tab} class="node-name">
      {text}
    </Link>
  ) : (
    <Name text={name} />
  );
}
