// What a save says when another version came first: what that changed, and the choice to save over it.

import type { Problem } from "../api.ts";
import { Button, Link } from "../parts/link.tsx";
import type { Href } from "../urls.ts";

export function ChangedMeanwhile({ error, base, changes, saveOver }: {
  error: Problem | null;
  base: number;
  /** The page that shows what changed until the version that is there now. */
  changes: (current: number) => Href;
  saveOver: (current: number) => void;
}) {
  if (error?.status !== 412) return null;
  const current = Number(error.members["current"]);
  return (
    <p class="row-buttons">
      {base > 0 && current > 0 && <Link to={changes(current)}>What changed since v{base}</Link>}
      <Button needs="author" onClick={() => saveOver(current)}>
        {current ? `Save over v${current}` : "Save it anew"}
      </Button>
    </p>
  );
}
