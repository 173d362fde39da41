// Places of the boxes of a graph that may have cycles: left to right in layers. Pure, and linear but for the sweeps.
//
// Edges that go back in a depth-first walk are turned for the layout; layers by the longest path; long edges go through
// places of their own; eight sweeps by the middle of the neighbours; rows by the same.

export interface MapBox {
  readonly id: string;
}

export interface MapEdge {
  readonly from: string;
  readonly to: string;
}

export interface MapPlace {
  readonly id: string;
  /** Column and row, in units of boxes. */
  readonly x: number;
  readonly y: number;
}

export interface MapWay {
  readonly from: string;
  readonly to: string;
  /** It goes against the direction of the layers. */
  readonly back: boolean;
  /** The places it passes, from its beginning to its end. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

export interface MapLayout {
  readonly boxes: readonly MapPlace[];
  readonly ways: readonly MapWay[];
  readonly columns: number;
  readonly rows: number;
}

export interface MapInput {
  readonly boxes: readonly MapBox[];
  readonly edges: readonly MapEdge[];
  /** Rows of an earlier layout: boxes that stayed keep their order. */
  readonly before?: Readonly<Record<string, number>>;
}

/** What is too much for a picture. */
export const MAX_BOXES = 400;
export const MAX_EDGES = 1200;

/** The least scale of a picture: its boxes are still targets of 24 px, and their text has 9 px. */
export const LEAST_SCALE = 0.7;
export const MOST_SCALE = 1.4;

/** The scale that fits a picture into this width: not larger than it is, and not smaller than can be read. */
export const fitScale = (natural: number, width: number): number =>
  width > 0 && natural > 0 ? Math.min(1, Math.max(LEAST_SCALE, width / natural)) : 1;

const SWEEPS = 8;

/** Which edges go back to a box that the walk is still in. */
function backEdges(
  count: number,
  edges: readonly (readonly [number, number])[],
  out: readonly (readonly number[])[],
) {
  const state = new Array<0 | 1 | 2>(count).fill(0);
  const back = new Set<number>();
  const incoming = new Array<number>(count).fill(0);
  for (const [, to] of edges) incoming[to] = (incoming[to] as number) + 1;
  // Boxes that nothing leads to are begun with, so that edges back are those that close a cycle.
  const order = [...Array(count).keys()].sort(
    (a, b) => Number(incoming[a] !== 0) - Number(incoming[b] !== 0) || a - b,
  );
  for (const start of order) {
    if (state[start]) continue;
    const walk: { at: number; edge: number }[] = [{ at: start, edge: 0 }];
    state[start] = 1;
    while (walk.length) {
      const top = walk[walk.length - 1] as { at: number; edge: number };
      const number = out[top.at]?.[top.edge];
      if (number === undefined) {
        state[top.at] = 2;
        walk.pop();
        continue;
      }
      top.edge += 1;
      const to = (edges[number] as readonly [number, number])[1];
      if (state[to] === 1) back.add(number);
      else if (state[to] === 0) {
        state[to] = 1;
        walk.push({ at: to, edge: 0 });
      }
    }
  }
  return back;
}

export function layoutMap({ boxes, edges, before = {} }: MapInput): MapLayout {
  const numberOf = new Map(boxes.map((box, at) => [box.id, at]));
  const pairs: [number, number][] = [];
  const kept: MapEdge[] = [];
  for (const edge of edges) {
    const from = numberOf.get(edge.from);
    const to = numberOf.get(edge.to);
    if (from === undefined || to === undefined) continue;
    pairs.push([from, to]);
    kept.push(edge);
  }
  const count = boxes.length;
  const out = boxes.map((): number[] => []);
  pairs.forEach(([from], at) => out[from]?.push(at));
  const back = backEdges(count, pairs, out);

  // Layers by the longest path over the edges, those that go back turned round.
  const down = boxes.map((): number[] => []);
  const waits = new Array<number>(count).fill(0);
  pairs.forEach(([from, to], at) => {
    if (from === to) return;
    const [a, b] = back.has(at) ? [to, from] : [from, to];
    down[a]?.push(b);
    waits[b] = (waits[b] as number) + 1;
  });
  const layer = new Array<number>(count).fill(0);
  const ready = [...Array(count).keys()].filter((at) => waits[at] === 0);
  for (let at = ready.pop(); at !== undefined; at = ready.pop())
    for (const to of down[at] as number[]) {
      layer[to] = Math.max(layer[to] as number, (layer[at] as number) + 1);
      waits[to] = (waits[to] as number) - 1;
      if (waits[to] === 0) ready.push(to);
    }
  pullRight(layer, down, waits);

  // Every place of the picture: the boxes, then the places that long edges pass.
  const placeLayer = [...layer];
  const chains = pairs.map(([from, to], at): number[] => {
    const [a, b] = back.has(at) ? [to, from] : [from, to];
    const chain = [a];
    for (let between = (layer[a] as number) + 1; between < (layer[b] as number); between++) {
      chain.push(placeLayer.length);
      placeLayer.push(between);
    }
    chain.push(b);
    return chain;
  });
  const columns = placeLayer.reduce((most, one) => Math.max(most, one), 0) + 1;
  const left = placeLayer.map((): number[] => []);
  const right = placeLayer.map((): number[] => []);
  chains.forEach((chain, at) => {
    if (pairs[at]?.[0] === pairs[at]?.[1]) return;
    for (let step = 1; step < chain.length; step++) {
      right[chain[step - 1] as number]?.push(chain[step] as number);
      left[chain[step] as number]?.push(chain[step - 1] as number);
    }
  });
  const layers: number[][] = Array.from({ length: columns }, () => []);
  placeLayer.forEach((at, place) => layers[at]?.push(place));
  const known = (place: number) => before[boxes[place]?.id ?? ""] ?? Number.POSITIVE_INFINITY;
  for (const places of layers) places.sort((a, b) => compare(known(a), known(b)) || a - b);

  const row = new Array<number>(placeLayer.length).fill(0);
  const number = (places: number[]) => places.forEach((place, at) => (row[place] = at));
  layers.forEach(number);
  const middle = (places: readonly number[], otherwise: number) =>
    places.length ? places.reduce((sum, place) => sum + (row[place] as number), 0) / places.length : otherwise;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    for (let step = 1; step < columns; step++) {
      const places = layers[forward ? step : columns - 1 - step] as number[];
      const sides = forward ? left : right;
      const wish = new Map(places.map((place) => [place, middle(sides[place] as number[], row[place] as number)]));
      places.sort(
        (a, b) => (wish.get(a) as number) - (wish.get(b) as number) || (row[a] as number) - (row[b] as number),
      );
      number(places);
    }
  }
  // Rows: each place goes as near to the middle of its neighbours as the order of its layer lets it.
  for (let sweep = 0; sweep < 4; sweep++)
    for (let step = 0; step < columns; step++) {
      const at = sweep % 2 === 0 ? step : columns - 1 - step;
      const places = layers[at] as number[];
      const wishes = places.map((place) =>
        middle([...(left[place] as number[]), ...(right[place] as number[])], row[place] as number),
      );
      spread(wishes).forEach((wish, index) => (row[places[index] as number] = wish));
    }
  const lowest = row.reduce((least, one) => Math.min(least, one), 0);
  const placed = boxes.map((box, at) => ({ id: box.id, x: layer[at] as number, y: (row[at] as number) - lowest }));
  return {
    boxes: placed,
    columns,
    rows: placed.reduce((most, box) => Math.max(most, box.y), 0) + 1,
    ways: kept.map((edge, at) => {
      const chain = chains[at] as number[];
      const points = chain.map((place) => ({ x: placeLayer[place] as number, y: (row[place] as number) - lowest }));
      if (back.has(at)) points.reverse();
      return {
        ...edge,
        back: back.has(at),
        points,
      };
    }),
  };
}

/** A box that nothing leads to stands just before what it leads to. */
function pullRight(layer: number[], down: readonly (readonly number[])[], waits: readonly number[]): void {
  const led = new Set(down.flat());
  down.forEach((targets, at) => {
    if (led.has(at) || !targets.length || waits[at]) return;
    layer[at] = Math.max(0, Math.min(...targets.map((to) => layer[to] as number)) - 1);
  });
}

/** Rows near to the wishes, in their order and at least one apart (pooled like an isotonic regression). */
export function spread(wishes: readonly number[]): number[] {
  const blocks: { sum: number; count: number }[] = [];
  wishes.forEach((wish, at) => {
    blocks.push({ sum: wish - at, count: 1 });
    for (;;) {
      const last = blocks[blocks.length - 1];
      const one = blocks[blocks.length - 2];
      if (!last || !one || one.sum / one.count <= last.sum / last.count) break;
      blocks.pop();
      one.sum += last.sum;
      one.count += last.count;
    }
  });
  const rows: number[] = [];
  for (const block of blocks)
    for (let one = 0; one < block.count; one++) rows.push(block.sum / block.count + rows.length);
  return rows;
}

const compare = (a: number, b: number) => (a === b ? 0 : a < b ? -1 : 1);
