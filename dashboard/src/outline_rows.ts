// Nodes of a tree as rows in the order of reading, with what is folded left out. Pure.

import type { OutlineNode } from "./rows.ts";
import { isBad } from "./execution_states.ts";

export interface OutlineRow {
  readonly node: OutlineNode;
  readonly depth: number;
  /** For each level above: whether a line goes on below it. */
  readonly guides: readonly boolean[];
  readonly last: boolean;
  readonly open: boolean;
  /** Children that are known here. */
  readonly known: number;
  /** Children that have to be fetched. */
  readonly missing: number;
}

export interface Forest {
  readonly roots: readonly OutlineNode[];
  readonly children: ReadonlyMap<string, readonly OutlineNode[]>;
}

/** Nodes by their parent. A node whose parent is not among them is a root. */
export function forestOf(nodes: readonly OutlineNode[]): Forest {
  const ids = new Set(nodes.map((node) => node.id));
  const children = new Map<string, OutlineNode[]>();
  const roots: OutlineNode[] = [];
  for (const node of nodes) {
    if (node.parent === null || !ids.has(node.parent)) roots.push(node);
    else {
      const list = children.get(node.parent);
      if (list) list.push(node);
      else children.set(node.parent, [node]);
    }
  }
  return { roots, children };
}

/** Ids of the nodes on the ways to bad ends. */
export function waysToFailures(nodes: readonly OutlineNode[]): ReadonlySet<string> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const found = new Set<string>();
  for (const node of nodes) {
    if (!isBad(node.state) && !isBad(node.worst) && node.kind !== "suppressed") continue;
    let one: OutlineNode | undefined = node;
    while (one && !found.has(one.id)) {
      found.add(one.id);
      one = one.parent === null ? undefined : byId.get(one.parent);
    }
  }
  return found;
}

/** Number of children that are not among these nodes; with `failuresOnly` of nodes where a bad end is not. */
export function leftOut(nodes: readonly OutlineNode[], failuresOnly = false): number {
  return nodes.reduce((sum, node) => sum + (failuresOnly && !isBad(node.worst) ? 0 : node.left_out), 0);
}

/** The rows to draw. `only` leaves out every other node. Iterative: a chain of thousands does not end the stack. */
export function outlineRows(
  forest: Forest,
  folded: ReadonlySet<string>,
  only?: ReadonlySet<string>,
): readonly OutlineRow[] {
  const kept = (nodes: readonly OutlineNode[]) => (only ? nodes.filter((node) => only.has(node.id)) : nodes);
  const rows: OutlineRow[] = [];
  const stack: { node: OutlineNode; depth: number; guides: readonly boolean[]; last: boolean }[] = [];
  const push = (nodes: readonly OutlineNode[], depth: number, guides: readonly boolean[]) => {
    for (let at = nodes.length - 1; at >= 0; at--)
      stack.push({ node: nodes[at] as OutlineNode, depth, guides, last: at === nodes.length - 1 });
  };
  push(kept(forest.roots), 0, []);
  for (let top = stack.pop(); top; top = stack.pop()) {
    const all = forest.children.get(top.node.id) ?? [];
    const below = kept(all);
    const open = below.length > 0 && !folded.has(top.node.id);
    const missing = only ? 0 : top.node.left_out;
    rows.push({ ...top, open, known: below.length, missing });
    // Guides of deep trees end at 24 levels: there is no room for more.
    if (open) push(below, top.depth + 1, top.depth === 0 ? [] : [...top.guides.slice(0, 24), !top.last]);
  }
  return rows;
}
