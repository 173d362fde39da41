// Rows with everything that a row has, unless a story or a test says otherwise.

import type { OutlineNode } from "../rows.ts";

export function node(id: string, parent: string | null, more: Partial<OutlineNode> = {}): OutlineNode {
  return {
    id, parent, kind: "execution", name: `f_${id}`, state: "succeeded", version: 1, about: null, reason: null,
    start: null, trigger: null, cause: null, attempt: 1, created_at: null, finished_at: null, queued_seconds: null,
    run_seconds: null, error_type: null, cancelled_by: null, resolved_by: null, execution_id: null, children: 0,
    left_out: 0, worst: null, count: null, min_seconds: null, median_seconds: null, max_seconds: null, ...more,
  };
}
