// Computes what takes long, so that the page never waits for it: the places of graphs, and trees of large JSON.

import { readJson } from "./json_lines.ts";
import { layoutMap, type MapInput } from "./layout/map.ts";
import { layoutTree, type TreeBox } from "./layout/tree.ts";

interface Job {
  readonly job: number;
  readonly kind: string;
  readonly input: unknown;
}

const LAYOUTS: Readonly<Record<string, (input: never) => unknown>> = {
  map: (input: MapInput) => layoutMap(input),
  tree: (input: readonly TreeBox[]) => layoutTree(input),
  json: (input: string) => readJson(input),
};

self.onmessage = ({ data }: MessageEvent<Job>) => {
  try {
    const layout = LAYOUTS[data.kind];
    if (!layout) throw new Error(`no layout ${data.kind}`);
    self.postMessage({ job: data.job, result: layout(data.input as never) });
  } catch (error) {
    self.postMessage({ job: data.job, error: error instanceof Error ? error.message : String(error) });
  }
};
