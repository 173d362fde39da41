// A tree: all that one event or call has led to. Outline, time or graph.

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, route, send } from "../api.ts";
import { now } from "../clock.ts";
import { isPending, useData } from "../data.ts";
import { isOpen } from "../execution_states.ts";
import { count, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { leftOut } from "../outline_rows.ts";
import { ask } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Outline as OutlinePart } from "../parts/outline.tsx";
import { FunctionName, Mark, Name, PageHead, Show, State } from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { Trace } from "../parts/trace.tsx";
import { hereWith, place, setQuery } from "../router.ts";
import type { Outline, OutlineNode, Tree } from "../rows.ts";
import { can } from "../session.ts";
import { traceRows } from "../trace_rows.tsx";
import { type Params, urls } from "../urls.ts";
import { askCancelTree } from "./execution_actions.ts";
import { LeftOut } from "./left_out.tsx";
import { TreeGraph } from "./tree_graph.tsx";

const VIEWS = ["outline", "time", "graph"] as const;
type View = (typeof VIEWS)[number];
const BUDGET = 200;
const NODES = 5000;

const wholeOf = (root: string) => [route("trees", root), {}] as const;
const outlineOf = (root: string) => [route("trees", root, "outline"), { budget: BUDGET }] as const;

/** What the page asks first. */
export const asksTree = ({ root = "" }: Params) => [wholeOf(root), outlineOf(root)];

export function TreePage({ root }: { root: string }) {
  const topics = [`tree:${root}`];
  const at = place.value.query.get("at");
  const tree = useData<Tree>(...wholeOf(root), { topics });
  const outline = useData<Outline>(...outlineOf(root), { topics });
  const around = useData<Outline>(
    at && outline.data && !outline.data.nodes.some((node) => node.id === at) && /^[0-9a-f-]{36}$/.test(at)
      ? route("trees", root, "outline")
      : null,
    { at, budget: BUDGET },
    { topics },
  );
  const [more, setMore] = useState<readonly OutlineNode[]>([]);
  const [whole, setWhole] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    setMore([]);
    setWhole(new Set());
  }, [root]);
  const nodes = useMemo(() => {
    const all = new Map<string, OutlineNode>();
    const parts = [more, around.data?.path ?? [], around.data?.nodes ?? [], outline.data?.nodes ?? []];
    for (const node of parts.flat()) all.set(node.id, node);
    // What was fetched below a node is left out no more.
    const fetched = new Map<string | null, number>();
    const first = new Set(outline.data?.nodes.map((node) => node.id));
    for (const id of new Set(more.map((node) => node.id))) {
      const parent = all.get(id)?.parent ?? null;
      if (!first.has(id)) fetched.set(parent, (fetched.get(parent) ?? 0) + 1);
    }
    return [...all.values()].map((node) => {
      const left = whole.has(node.id) ? 0 : Math.max(0, node.left_out - (fetched.get(node.id) ?? 0));
      return left === node.left_out ? node : { ...node, left_out: left };
    });
  }, [outline.data, around.data, more, whole]);
  const view: View = VIEWS.find((one) => one === place.value.query.get("view")) ?? "outline";
  const failures = place.value.query.has("failed");
  const select = (id: string) => setQuery({ at: id });
  const fetchMore = async (node: OutlineNode) => {
    try {
      let after: string | null = null;
      const found: OutlineNode[] = [];
      do {
        const part: { items: OutlineNode[]; next: string | null } = await get(route("trees", root, "children"), {
          of: node.id,
          after,
          limit: 100,
        });
        found.push(...part.items);
        after = part.next;
      } while (after !== null && found.length < 500);
      setMore((known) => [...known, ...found].slice(0, NODES));
      if (after === null) setWhole((known) => new Set([...known, node.id]));
    } catch (error) {
      toastError(error);
    }
  };
  const raise = (budget: { used: number; maximum: number }) =>
    ask({
      title: "Raise the budget of this tree?",
      body: (
        <p>
          {count(budget.used)} of {count(budget.maximum)} executions were used. Matches that the budget has stopped can
          be run afterwards.
        </p>
      ),
      verb: "Raise it",
      ask: { label: "New maximum", required: true, placeholder: String(budget.maximum * 2) },
      run: async (text) => {
        await send("PATCH", route("trees", root, "budget"), { maximum: Number(text) });
        toast({ text: `The budget is ${count(Number(text))}` });
        tree.reload();
      },
    });
  const first = nodes.find((node) => node.id === root) ?? nodes[0];
  // What is cancelled: the chosen execution with all below it, or the whole tree if nothing is chosen.
  const top = at ? nodes.find((node) => node.id === at) : first;
  const cancels = top?.kind === "execution" && can("operate") && Object.keys(tree.data?.states ?? {}).some(isOpen);
  const cancel = () => top && askCancelTree(top.id, top.name, tree.reload);
  useKeys("Tree", [
    { keys: "c", label: "Cancel with everything below", run: cancel, when: cancels },
    { keys: "f", label: "Only the ways to failures", run: () => setQuery({ failed: !failures }) },
    {
      keys: "v",
      label: "Outline, time, graph",
      run: () => {
        const next = VIEWS[(VIEWS.indexOf(view) + 1) % VIEWS.length] as View;
        setQuery({ view: next === "outline" ? null : next });
      },
    },
  ]);
  const rows = useMemo(() => (view === "time" ? traceRows(nodes, "", [], []) : []), [nodes, view]);
  return (
    <>
      <PageHead
        title={first ? <FunctionName name={first.name} version={first.version} /> : "Tree"}
        waits={isPending(outline) || isPending(tree)}
        mark={first && (first.kind === "event" ? <Mark name="event" /> : <State state={first.state} bare />)}
        actions={
          <>
            {cancels && (
              <Button keys="c" onClick={cancel}>
                {at ? "Cancel from here" : "Cancel the tree"}
              </Button>
            )}
            <Button onClick={() => setQuery({ failed: !failures })} kind={failures ? "primary" : "plain"} keys="f">
              failed only
            </Button>
            <span class="choice" role="group" aria-label="View">
              {VIEWS.map((one) => (
                <button
                  key={one}
                  type="button"
                  class="link"
                  aria-pressed={view === one}
                  onClick={() => setQuery({ view: one === "outline" ? null : one })}
                >
                  {one}
                </button>
              ))}
            </span>
          </>
        }
        note={tree.data && <TreeCounts of={tree.data} raise={raise} />}
      />
      <Show of={outline} rows={14}>
        {(part) => (
          <>
            {view === "outline" && (
              <OutlinePart
                nodes={nodes}
                label="Tree"
                selected={at}
                failuresOnly={failures}
                onSelect={(node) => select(node.id)}
                onMore={(node) => void fetchMore(node)}
              />
            )}
            {view === "time" && (
              <>
                <Trace
                  rows={rows}
                  label="Tree by time"
                  selected={at}
                  now={rows.some((one) => one.start !== null && one.end === null) ? now.value : 0}
                  onSelect={(row) => select(row.id)}
                />
                <LeftOut number={leftOut(nodes)} to={hereWith({ view: null })} />
              </>
            )}
            {view === "graph" && (
              <TreeGraph nodes={nodes} selected={at} failuresOnly={failures} onSelect={(node) => select(node.id)} />
            )}
            {part.truncated && (
              <p class="table-note dim">
                {plural(nodes.length, "line")} of {count(part.total)} are here. “+n” fetches more.
              </p>
            )}
          </>
        )}
      </Show>
    </>
  );
}

function TreeCounts({ of, raise }: { of: Tree; raise: (budget: { used: number; maximum: number }) => void }) {
  const stopped = of.suppressed.reduce((sum, one) => sum + one.count, 0);
  const states = Object.entries(of.states).filter(([, n]) => n > 0);
  return (
    <div class="tree-counts">
      <span>{plural(of.executions, "execution")}</span>
      {states.map(([state, n]) => (
        <span key={state} class="pair">
          <State state={state} bare /> {count(n)}
        </span>
      ))}
      <span>{plural(of.events, "event")}</span>
      {stopped > 0 && (
        <span
          class="tone-warn"
          title={of.suppressed.map((one) => `${one.trigger}: ${one.reason} ×${one.count}`).join("\n")}
        >
          {count(stopped)} stopped
        </span>
      )}
      <span>{plural(of.functions.length, "version")}</span>
      {of.depth > 0 && <span>depth {of.depth}</span>}
      {of.budget && (
        <span class="pair">
          <meter
            min={0}
            max={of.budget.maximum}
            high={of.budget.maximum * 0.8}
            value={of.budget.used}
            aria-label={`Budget: ${of.budget.used} of ${of.budget.maximum}`}
          />
          budget {count(of.budget.used)}/{count(of.budget.maximum)}
          {can("operate") && (
            <button type="button" class="link" onClick={() => of.budget && raise(of.budget)}>
              raise
            </button>
          )}
        </span>
      )}
      {of.functions.some((one) => one.failures > 0) && (
        <span>
          failed:{" "}
          {of.functions
            .filter((one) => one.failures > 0)
            .slice(0, 3)
            .map((one) => (
              <Link key={`${one.function}${one.version}`} to={urls.function(one.function)}>
                <Name text={one.function} /> ×{count(one.failures)}{" "}
              </Link>
            ))}
        </span>
      )}
    </div>
  );
}
