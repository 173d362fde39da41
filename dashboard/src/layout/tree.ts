// Places of the boxes of a tree: left to right, x by depth, y by the order of the leaves. One pass, linear. Pure.

export interface TreeBox {
  readonly id: string;
  readonly parent: string | null;
}

export interface Placed {
  readonly id: string;
  readonly parent: string | null;
  /** Column and row, in units of boxes. */
  readonly x: number;
  readonly y: number;
}

/** A line beyond the tree: a match that started nothing of its own leads to the execution that it joined. */
export interface Joint {
  readonly from: string;
  readonly to: string;
}

export interface TreeLayout {
  readonly boxes: readonly Placed[];
  readonly columns: number;
  readonly rows: number;
}

/** The places. A box whose parent is not among the boxes is a root. A parent is in the middle of its children. */
export function layoutTree(boxes: readonly TreeBox[]): TreeLayout {
  const ids = new Set(boxes.map((box) => box.id));
  const children = new Map<string, TreeBox[]>();
  const roots: TreeBox[] = [];
  for (const box of boxes) {
    if (box.parent === null || !ids.has(box.parent)) roots.push(box);
    else {
      const list = children.get(box.parent);
      if (list) list.push(box);
      else children.set(box.parent, [box]);
    }
  }
  const x = new Map<string, number>();
  const y = new Map<string, number>();
  const order: TreeBox[] = [];
  const stack = [...roots].reverse().map((box) => ({ box, depth: 0 }));
  let leaf = 0;
  for (let top = stack.pop(); top; top = stack.pop()) {
    const below = children.get(top.box.id) ?? [];
    x.set(top.box.id, top.depth);
    order.push(top.box);
    if (!below.length) y.set(top.box.id, leaf++);
    for (let at = below.length - 1; at >= 0; at--) stack.push({ box: below[at] as TreeBox, depth: top.depth + 1 });
  }
  for (let at = order.length - 1; at >= 0; at--) {
    const box = order[at] as TreeBox;
    const below = children.get(box.id);
    if (below?.length) {
      const first = y.get((below[0] as TreeBox).id) ?? 0;
      const last = y.get((below.at(-1) as TreeBox).id) ?? 0;
      y.set(box.id, (first + last) / 2);
    }
  }
  return {
    boxes: order.map((box) => ({ ...box, x: x.get(box.id) ?? 0, y: y.get(box.id) ?? 0 })),
    columns: order.reduce((most, box) => Math.max(most, x.get(box.id) ?? 0), 0) + 1,
    rows: Math.max(1, leaf),
  };
}

/** The joint lines among the boxes that are drawn. */
export function jointsOf(
  nodes: readonly { readonly id: string; readonly kind: string; readonly execution_id: string | null }[],
): readonly Joint[] {
  const drawn = new Set(nodes.map((node) => node.id));
  return nodes.flatMap(({ id, kind, execution_id: to }) =>
    kind === "joined" && to !== null && drawn.has(to) ? [{ from: id, to }] : [],
  );
}
